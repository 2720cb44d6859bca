//! Resources and prompts that the server offers besides tools. Both are set up by the operator; no tool and no client
//! adds to them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::text::sanitize::{count_hidden, printable};
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::tool::resource::is_uri;

use super::template::{self, Parameter, TemplateError};

type ReadFn = dyn Fn() -> BoxFuture<'static, Result<Vec<u8>, String>> + Send + Sync;

/// A source of bytes that is read on every request.
#[derive(Clone)]
pub struct Source(Arc<ReadFn>);

impl Source {
    /// Creates a source from an asynchronous function. `read` must not block, and must bound the size of its output.
    /// Its error is a message that is sent to the client.
    pub fn new(read: impl Fn() -> BoxFuture<'static, Result<Vec<u8>, String>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Creates a source of constant text.
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

/// A text or file that clients can read: a resource of the protocol.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The URI that identifies it.
    pub uri: String,
    /// The name, for programs.
    pub name: String,
    /// The name, for people.
    pub title: Option<String>,
    /// A description: what it is, and when it is worth reading.
    pub description: Option<String>,
    /// The MIME type, such as `text/markdown`.
    pub mime_type: String,
    /// The source of its contents.
    pub source: Source,
}

/// A prompt of the protocol: a template for the user's side of a conversation.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// The name, for programs.
    pub name: String,
    /// The name, for people.
    pub title: Option<String>,
    /// A description of its purpose.
    pub description: Option<String>,
    /// The arguments.
    pub parameters: Vec<Parameter>,
    /// The URIs of entries that come before the text.
    pub entries: Vec<String>,
    /// The source of the text; `{NAME}` stands for the argument of that name.
    pub text: Source,
}

/// The resources and prompts of a server.
#[derive(Debug, Clone, Default)]
pub struct Library {
    entries: BTreeMap<String, Entry>,
    prompts: BTreeMap<String, Prompt>,
}

/// Errors returned by [`Library::add_entry`] and [`Library::add_prompt`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// A URI that another entry has.
    #[error("two entries have the URI `{0}`; change one of them")]
    SameAddress(String),
    /// An invalid URI.
    #[error("invalid URI `{0}` of an entry; expected a scheme and a path, such as `fumehood://knowledge/rules`")]
    NoAddress(String),
    /// A name that another prompt has.
    #[error("two prompts are called `{0}`; rename one of them")]
    SameName(String),
    /// Hidden characters in a name that clients have to repeat.
    #[error("the name `{0}` contains invisible characters; remove them")]
    HiddenName(PrintableText),
    /// A prompt that refers to an unknown entry.
    #[error("the prompt `{prompt}` names the unknown entry `{uri}`")]
    NoEntry {
        /// The name of the prompt.
        prompt: String,
        /// The URI that it refers to.
        uri: String,
    },
}

/// Errors returned by [`Library::render_prompt`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PromptError {
    /// An unknown name.
    Unknown,
    /// Invalid arguments.
    Arguments(TemplateError),
    /// A text or entry that cannot be read.
    Unreadable(String),
}

impl Library {
    /// Adds an entry.
    ///
    /// # Errors
    /// If its URI is invalid or taken.
    ///
    /// Hidden characters in its texts are escaped.
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

    /// Adds a prompt. The entries that it refers to have to be added before.
    ///
    /// # Errors
    /// If its name is taken, a name has hidden characters, or an entry is missing.
    ///
    /// Hidden characters in its texts are escaped.
    pub fn add_prompt(&mut self, mut prompt: Prompt) -> Result<(), LibraryError> {
        let names = std::iter::once(&prompt.name).chain(prompt.parameters.iter().map(|it| &it.name));
        if let Some(name) = names.into_iter().find(|name| count_hidden(name) > 0) {
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

    /// Returns the entries by their URIs.
    pub(crate) fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// Returns the prompts by their names.
    pub(crate) fn prompts(&self) -> &BTreeMap<String, Prompt> {
        &self.prompts
    }

    /// Renders the text of a prompt with its arguments, and reads the entries that come before it.
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

/// Escapes hidden characters once, for every client.
fn sanitize<'a>(texts: impl Iterator<Item = &'a mut String>) {
    for text in texts.filter(|text| count_hidden(text) > 0) {
        *text = printable(text).into_owned();
    }
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

    fn check_uri(uri: &str, expected: bool) {
        assert_eq!(Library::default().add_entry(entry(uri)).is_ok(), expected, "{uri:?}");
    }

    #[test]
    fn rejects_invalid_and_duplicate_uris() {
        check_uri("fumehood://knowledge/rules", true);
        check_uri("urn:isbn:0", true);
        check_uri("rules", false);
        check_uri(":rules", false);
        check_uri("1a:rules", false);
        check_uri("a b://c", false);
        check_uri("a://b c", false);
        check_uri("a:", false);
        check_uri(&format!("a:{}", "x".repeat(1022)), true);
        check_uri(&format!("a:{}", "x".repeat(1023)), false);
        let mut library = Library::default();
        library.add_entry(entry("a:b")).unwrap();
        assert_eq!(library.add_entry(entry("a:b")), Err(LibraryError::SameAddress("a:b".to_owned())));
    }
}
