//! What is offered besides tools: texts that clients can read, and prompts that people can choose. Both are set up by the
//! operator; no tool and no client adds to them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::sanitize::{hidden, printable};
use fumehood_core::untrusted::PrintableText;

use crate::template::{self, Parameter, TemplateError};

type ReadFn = dyn Fn() -> BoxFuture<'static, Result<Vec<u8>, String>> + Send + Sync;

/// Where bytes come from, each time that they are asked for.
#[derive(Clone)]
pub struct Source(Arc<ReadFn>);

impl Source {
    /// Bytes that `read` gives. It must not block, and bounds how much it gives. An error is told to the client, in words.
    pub fn new(read: impl Fn() -> BoxFuture<'static, Result<Vec<u8>, String>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// A text in memory.
    #[must_use]
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        Self::new(move || Box::pin(std::future::ready(Ok(text.as_bytes().to_vec()))))
    }

    pub(crate) async fn read(&self) -> Result<Vec<u8>, String> {
        (self.0)().await
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source(…)")
    }
}

/// Something that clients can read: a resource of the protocol.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What it is asked for by.
    pub uri: String,
    /// Its name, for programs.
    pub name: String,
    /// Its name, for people.
    pub title: Option<String>,
    /// What it is, and when it is worth reading.
    pub description: Option<String>,
    /// Its media type, such as `text/markdown`.
    pub mime_type: String,
    /// What it says.
    pub source: Source,
}

/// A text for the user's side of a conversation.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// Its name, for programs.
    pub name: String,
    /// Its name, for people.
    pub title: Option<String>,
    /// What it is good for.
    pub description: Option<String>,
    /// Its arguments.
    pub parameters: Vec<Parameter>,
    /// The addresses of entries that come before the text.
    pub entries: Vec<String>,
    /// The text; `{NAME}` stands for the argument of that name.
    pub text: Source,
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct Library {
    entries: BTreeMap<String, Entry>,
    prompts: BTreeMap<String, Prompt>,
}

/// Why something cannot be offered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// Two entries have one address.
    #[error("two entries have the address `{0}`; give one of them another")]
    SameAddress(String),
    /// An address is none.
    #[error("`{0}` is not an address of an entry; write a scheme and a path, such as `fumehood://knowledge/rules`")]
    NoAddress(String),
    /// Two prompts have one name.
    #[error("two prompts are called `{0}`; rename one of them")]
    SameName(String),
    /// A name that clients have to repeat has characters that nobody sees.
    #[error("the name `{0}` has characters that nobody sees; write it without them")]
    HiddenName(PrintableText),
    /// A prompt names an entry that is not there.
    #[error("the prompt `{prompt}` names the entry `{uri}`, and there is none of that address")]
    NoEntry {
        /// Which prompt.
        prompt: String,
        /// What it names.
        uri: String,
    },
}

/// Why a prompt was not given out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PromptError {
    /// There is none of that name.
    Unknown,
    /// Its arguments do not fit.
    Arguments(TemplateError),
    /// What it is made of cannot be read.
    Unreadable(String),
}

impl Library {
    /// Adds an entry.
    ///
    /// # Errors
    /// If its address is none, or taken. Hidden characters in its texts are written out.
    pub fn add_entry(&mut self, mut entry: Entry) -> Result<(), LibraryError> {
        let texts = [&mut entry.name, &mut entry.mime_type];
        sanitize(texts.into_iter().chain(&mut entry.title).chain(&mut entry.description));
        if !is_uri(&entry.uri) {
            return Err(LibraryError::NoAddress(entry.uri));
        }
        match self.entries.entry(entry.uri.clone()) {
            std::collections::btree_map::Entry::Occupied(_) => Err(LibraryError::SameAddress(entry.uri)),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(entry);
                Ok(())
            }
        }
    }

    /// Adds a prompt. The entries that it names have to be there already.
    ///
    /// # Errors
    /// If its name is taken, a name has hidden characters, or an entry is not there. Hidden characters in its texts are
    /// written out.
    pub fn add_prompt(&mut self, mut prompt: Prompt) -> Result<(), LibraryError> {
        let names = std::iter::once(&prompt.name).chain(prompt.parameters.iter().map(|it| &it.name));
        if let Some(name) = names.into_iter().find(|name| hidden(name) > 0) {
            return Err(LibraryError::HiddenName(name.into()));
        }
        let descriptions = prompt.parameters.iter_mut().map(|it| &mut it.description);
        sanitize(descriptions.chain(&mut prompt.title).chain(&mut prompt.description));
        if let Some(uri) = prompt.entries.iter().find(|uri| !self.entries.contains_key(*uri)) {
            return Err(LibraryError::NoEntry { prompt: prompt.name.clone(), uri: uri.clone() });
        }
        match self.prompts.entry(prompt.name.clone()) {
            std::collections::btree_map::Entry::Occupied(_) => Err(LibraryError::SameName(prompt.name)),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(prompt);
                Ok(())
            }
        }
    }

    /// The entries, by their addresses.
    pub(crate) fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// The prompts, by their names.
    pub(crate) fn prompts(&self) -> &BTreeMap<String, Prompt> {
        &self.prompts
    }

    /// The text of a prompt with its arguments in it, and what comes before it: the entries, each with what it says.
    pub(crate) async fn render_prompt(
        &self,
        name: &str,
        arguments: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<(Vec<(&Entry, Vec<u8>)>, String), PromptError> {
        let prompt = self.prompts.get(name).ok_or(PromptError::Unknown)?;
        let arguments = template::bind_arguments(&prompt.parameters, arguments).map_err(PromptError::Arguments)?;
        let text = prompt.text.read().await.map_err(PromptError::Unreadable)?;
        let text = String::from_utf8(text)
            .map_err(|_| PromptError::Unreadable("the text of this prompt is not UTF-8".to_owned()))?;
        let mut before = Vec::new();
        for entry in prompt.entries.iter().filter_map(|uri| self.entries.get(uri)) {
            before.push((entry, entry.source.read().await.map_err(PromptError::Unreadable)?));
        }
        let text = template::fill(&text, &arguments).map_err(PromptError::Arguments)?;
        Ok((before, text))
    }
}

/// Writes out what is hidden, once and for every client.
fn sanitize<'a>(texts: impl Iterator<Item = &'a mut String>) {
    for text in texts.filter(|text| hidden(text) > 0) {
        *text = printable(text).into_owned();
    }
}

/// A scheme, a colon and more, all of it visible ASCII.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
    is_scheme && !rest.is_empty() && text.len() <= 1024 && text.bytes().all(|c| c.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(uri: &str) -> Entry {
        let source = Source::text("text");
        Entry {
            uri: uri.to_owned(),
            name: "e".to_owned(),
            title: None,
            description: None,
            mime_type: "text/plain".to_owned(),
            source,
        }
    }

    #[test]
    fn an_address_is_one_and_only_once() {
        let check = |uri: &str, expected: bool| {
            assert_eq!(Library::default().add_entry(entry(uri)).is_ok(), expected, "{uri:?}");
        };
        check("fumehood://knowledge/rules", true);
        check("urn:isbn:0", true);
        check("rules", false);
        check(":rules", false);
        check("1a:rules", false);
        check("a b://c", false);
        check("a://b c", false);
        check("a:", false);
        check(&format!("a:{}", "x".repeat(1022)), true);
        check(&format!("a:{}", "x".repeat(1023)), false);
        let mut library = Library::default();
        library.add_entry(entry("a:b")).unwrap();
        assert_eq!(library.add_entry(entry("a:b")), Err(LibraryError::SameAddress("a:b".to_owned())));
    }
}
