//! Indexes: one signed file that lists components, so that they can be found without a server of their own.
//!
//! The file is a Sigstore bundle; its statement carries the list. Publishing it means to copy it somewhere.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fumehood_core::digest::Digest;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::reference::OciReference;
use crate::signature::{KeyId, OpenJsonError, PublicKey, SigningKey, open_json, sign_json};

/// Maximum size of the file of an index, in bytes.
pub const MAX_INDEX_BYTES: usize = 16 << 20;
/// Maximum number of components in an index.
pub const MAX_ENTRIES: usize = 20_000;
/// Maximum number of tools of one component in an index.
pub const MAX_TOOLS: usize = 1000;
/// Maximum length of a name or a description in an index, in bytes.
pub const MAX_TEXT_BYTES: usize = 4096;
/// Type of the predicate.
const INDEX_TYPE: &str = "urn:fumehood:index:v1";

/// A list of components.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// The name that operators know the index by.
    pub name: String,
    /// The time of the list. A later list replaces an earlier one, and never the other way round.
    pub issued_at: Timestamp,
    /// The components, ordered by reference.
    pub entries: Vec<IndexEntry>,
}

/// A component in an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexEntry {
    /// The reference, with the digest of the manifest.
    pub reference: OciReference,
    /// The digest of the component's bytes.
    pub component: Digest,
    /// The title.
    pub title: PrintableText,
    /// The description.
    #[serde(default)]
    pub description: PrintableText,
    /// The keys that signed it.
    #[serde(default)]
    pub signers: Vec<KeyId>,
    /// The tools.
    #[serde(default)]
    pub tools: Vec<IndexTool>,
}

/// A tool in an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexTool {
    /// The name.
    pub name: PrintableText,
    /// The description.
    #[serde(default)]
    pub description: PrintableText,
    /// The JSON Schema of its arguments, as text: it says the same as the component, which is read again when it is added.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub input_schema: PrintableText,
}

/// A component that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match<'a> {
    /// The component.
    pub entry: &'a IndexEntry,
    /// The tools that the words were found in.
    pub tools: Vec<&'a IndexTool>,
    /// The weight of the places that the words were found in.
    pub score: u32,
}

/// An error of an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The list cannot be made.
    #[error("cannot create the index: {0}")]
    Build(String),
    /// The file cannot be read.
    #[error("cannot read the index `{name}`: {reason}; expected a file from `fumehood index build`")]
    Malformed {
        /// The name of the index.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The file is signed with a key that is not trusted.
    #[error("the index `{name}` is signed with a key that is not trusted for it (hint {hint})")]
    ForeignKey {
        /// The name of the index.
        name: String,
        /// The hint of the bundle about its key.
        hint: String,
    },
    /// The signature is not that of the key that it names.
    #[error("the index `{name}` was changed: the key {key} did not sign this list; download the file again")]
    Wrong {
        /// The name of the index.
        name: String,
        /// The key.
        key: KeyId,
    },
    /// The file is another index.
    #[error("expected the index `{name}`, got `{found}`")]
    OtherName {
        /// The expected name.
        name: String,
        /// The name in the file.
        found: String,
    },
    /// The list is older than one that was read before.
    #[error(
        "the index `{name}` was issued at {issued_at}, but a newer list of {newest} was already read from there. An \
         old list may hide new versions and revocations; ask its publisher, or remove {} to accept it", record.display()
    )]
    Older {
        /// The name of the index.
        name: String,
        /// The time of the list, in RFC 3339.
        issued_at: String,
        /// The time of the newest list that was read before.
        newest: String,
        /// The record of that.
        record: PathBuf,
    },
    /// The record of the newest list cannot be read or written.
    #[error("cannot use {}, which records the newest list of each index: {reason}; remove it if it is damaged", path.display())]
    History {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl Index {
    /// Makes an index.
    ///
    /// # Errors
    /// If a text is too long, a reference has no digest, or there are too many entries.
    pub fn build(
        name: impl Into<String>,
        issued_at: Timestamp,
        mut entries: Vec<IndexEntry>,
    ) -> Result<Self, IndexError> {
        entries.sort_by(|a, b| a.reference.cmp(&b.reference));
        entries.dedup_by(|a, b| a.reference == b.reference);
        let index = Self { name: name.into(), issued_at, entries };
        index.check().map_err(IndexError::Build)?;
        Ok(index)
    }

    /// Signs the index. Returns the contents of its file.
    ///
    /// # Errors
    /// If the file would be larger than [`MAX_INDEX_BYTES`], or the system gives no randomness.
    pub fn sign(&self, key: &SigningKey) -> Result<String, IndexError> {
        let file = sign_json(key, &self.name, INDEX_TYPE, self).map_err(IndexError::Build)?;
        if file.len() > MAX_INDEX_BYTES {
            Err(IndexError::Build(format!("it has {} bytes; at most {MAX_INDEX_BYTES} are read", file.len())))
        } else {
            Ok(file)
        }
    }

    /// Reads and verifies the file of an index. [`IndexHistory::check`](crate::index_history::IndexHistory::check) tells
    /// whether it is an old one.
    ///
    /// # Errors
    /// If the file is malformed, is not signed by a trusted key, or is another index.
    pub fn open(file: &[u8], name: &str, trusted: &[PublicKey]) -> Result<(Self, KeyId), IndexError> {
        let malformed = |reason| IndexError::Malformed { name: name.to_owned(), reason };
        let opened = open_json::<Self>(file, name, INDEX_TYPE, trusted, MAX_INDEX_BYTES);
        let (key, index) = opened.map_err(|error| match error {
            OpenJsonError::Malformed(reason) => malformed(reason),
            OpenJsonError::ForeignKey(hint) => IndexError::ForeignKey { name: name.to_owned(), hint },
            OpenJsonError::Wrong(key) => IndexError::Wrong { name: name.to_owned(), key },
            OpenJsonError::OtherName(found) => {
                IndexError::OtherName { name: name.to_owned(), found: PrintableText::from(found).into() }
            }
        })?;
        index.check().map_err(malformed)?;
        if index.name != name {
            return Err(IndexError::OtherName { name: name.to_owned(), found: PrintableText::from(index.name).into() });
        }
        Ok((index, key))
    }

    /// Finds the components in which every word occurs, the best first. Upper and lower case are the same.
    #[must_use]
    pub fn search(&self, words: &str) -> Vec<Match<'_>> {
        let words: BTreeSet<String> = words.split_whitespace().map(str::to_lowercase).collect();
        if words.is_empty() {
            return Vec::new();
        }
        let mut found: Vec<Match<'_>> = self.entries.iter().filter_map(|entry| search_entry(entry, &words)).collect();
        found.sort_by(|a, b| (b.score, &a.entry.reference).cmp(&(a.score, &b.entry.reference)));
        found
    }

    /// Checks the bounds. Returns the reason why they are exceeded.
    fn check(&self) -> Result<(), String> {
        if self.entries.len() > MAX_ENTRIES {
            return Err(format!("it has {} entries; the maximum is {MAX_ENTRIES}", self.entries.len()));
        }
        for entry in &self.entries {
            if entry.reference.digest().is_none() {
                return Err(format!("{} has no digest", entry.reference));
            }
            if entry.tools.len() > MAX_TOOLS {
                return Err(format!("{} has more than {MAX_TOOLS} tools", entry.reference));
            }
            let of_tools = entry.tools.iter().flat_map(|tool| [&tool.name, &tool.description]);
            let mut texts = of_tools.chain([&entry.title, &entry.description]);
            if texts.any(|text| text.len() > MAX_TEXT_BYTES) {
                return Err(format!("a text of {} has more than {MAX_TEXT_BYTES} bytes", entry.reference));
            }
        }
        Ok(())
    }
}

/// Looks for words in an entry. Names weigh more than descriptions, and those of tools more than that of the component.
fn search_entry<'a>(entry: &'a IndexEntry, words: &BTreeSet<String>) -> Option<Match<'a>> {
    let mut score = 0;
    let mut tools: Vec<&IndexTool> = Vec::new();
    for word in words {
        let mut weight = 0;
        for tool in &entry.tools {
            let of_tool =
                u32::from(contains_word(&tool.name, word)) * 8 + u32::from(contains_word(&tool.description, word)) * 2;
            if of_tool > 0 && !tools.contains(&tool) {
                tools.push(tool);
            }
            weight = weight.max(of_tool);
        }
        weight += u32::from(contains_word(&entry.title, word)) * 4;
        weight += u32::from(contains_word(entry.reference.repository(), word)) * 4;
        weight += u32::from(contains_word(&entry.description, word)) * 2;
        if weight == 0 {
            return None;
        }
        score += weight;
    }
    Some(Match { entry, tools, score })
}

/// Returns whether a word, in lower case, is in a text.
fn contains_word(text: &str, word: &str) -> bool {
    text.to_lowercase().contains(word)
}
