//! Content, definitions and messages of guests, as values of the host.

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::text::sanitize::{printable, truncate_str};
use fumehood_core::text::untrusted::{PrintableText, Untrusted};
use fumehood_core::tool::definition::{Annotations, RawDefinition};
use fumehood_core::tool::resource::{RawPage, RawResource};

use super::bindings::exports::fumehood::tool::tools::ToolDefinition as GuestDefinition;
use super::bindings::fumehood::tool::types;
use super::resource_bindings;

/// Maximum size of a tool's message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// Converts one part of a result.
///
/// # Errors
/// If a JSON part is not JSON.
pub(crate) fn to_content(content: types::Content) -> Result<Content, CallError> {
    match content {
        types::Content::Text(text) => Ok(Content::text(text)),
        types::Content::Json(text) => json(text),
        types::Content::Blob(blob) => Ok(Content::Blob { mime_type: blob.mime_type.into(), data: blob.data }),
        types::Content::Link(link) => Ok(Content::Link {
            uri: link.uri.into(),
            title: link.title.map(Untrusted::new),
            mime_type: link.mime_type.map(Untrusted::new),
        }),
    }
}

/// Parses a JSON part.
///
/// # Errors
/// If the text is not JSON.
pub(crate) fn json(text: String) -> Result<Content, CallError> {
    Content::json(text).map_err(|error| {
        CallError::new(ErrorKind::BadResult, format!("the tool's `json` content is not JSON: {error}"))
    })
}

/// Makes a guest's message printable, and truncates it to [`MAX_MESSAGE_BYTES`].
pub(crate) fn cut(message: &str) -> String {
    cut_to(message, MAX_MESSAGE_BYTES)
}

/// Like [`cut`], with the count of the characters that were escaped.
pub(crate) fn message(text: &str) -> PrintableText {
    let mut message = PrintableText::from(truncate_str(text, MAX_MESSAGE_BYTES));
    message.revise(cut(text));
    message
}

/// Makes a guest's message printable, and truncates it to at most `bytes` bytes and an ellipsis. Text beyond that is not
/// looked at, however long it is.
pub(crate) fn cut_to(message: &str, bytes: usize) -> String {
    let begin = truncate_str(message, bytes);
    let printable = printable(begin);
    if printable.len() <= bytes && begin.len() == message.len() {
        return printable.into_owned();
    }
    format!("{}…", truncate_str(&printable, bytes))
}

/// Returns the contents of a resource as a part of a result, with line feeds as line ends. Its definition has the MIME type.
pub(crate) fn to_part(contents: resource_bindings::ResourceContents) -> types::Content {
    match contents {
        resource_bindings::ResourceContents::Text(text) => types::Content::Text(text.replace("\r\n", "\n")),
        resource_bindings::ResourceContents::Blob(data) => {
            types::Content::Blob(types::Blob { mime_type: "application/octet-stream".to_owned(), data })
        }
    }
}

/// Returns a definition of a resource, before anything of it was checked.
pub(crate) fn to_raw_resource(definition: resource_bindings::ResourceDefinition) -> RawResource {
    let resource_bindings::ResourceDefinition { uri, name, title, description, mime_type, page } = definition;
    let page = page.map(|page| RawPage {
        tools: page.tools,
        connect_domains: page.connect_domains,
        resource_domains: page.resource_domains,
        frame_domains: page.frame_domains,
        base_uri_domains: page.base_uri_domains,
        prefers_border: page.prefers_border,
    });
    RawResource { uri, name, title, description, mime_type, page }
}

/// Returns a definition of a tool, before anything of it was checked.
pub(crate) fn to_raw(definition: GuestDefinition) -> RawDefinition {
    let annotations = definition.annotations;
    RawDefinition {
        name: definition.name,
        title: definition.title,
        description: definition.description,
        input_schema: definition.input_schema,
        output_schema: definition.output_schema,
        annotations: Annotations {
            read_only: annotations.read_only,
            destructive: annotations.destructive,
            idempotent: annotations.idempotent,
            open_world: annotations.open_world,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_messages_at_a_character_and_escapes_them() {
        assert_eq!(cut("a\u{1b}[0m"), "a\\u{1b}[0m");
        assert_eq!((message("a\u{1b}[0m").as_str(), message("a\u{1b}[0m").hidden_chars()), ("a\\u{1b}[0m", 1));
        let long = "ä".repeat(4000);
        let short = cut(&long);
        assert!(short.len() <= MAX_MESSAGE_BYTES + '…'.len_utf8());
        assert!(short.ends_with('…'));
        assert_eq!(message(&"\u{1b}".repeat(1 << 20)).hidden_chars(), MAX_MESSAGE_BYTES as u64);
    }
}
