//! How a call ended, as clients read it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fumehood_core::content::Content;
use fumehood_core::result::{CallError, CallResult};
use fumehood_core::sanitize::printable;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Resource, ResourceContents};
use serde_json::Value;

/// Under this name, a failure says again what it is, for programs.
const ERROR: &str = "fumehood/error";
/// What bytes are that do not say, or say something that is no MIME type.
const UNKNOWN: &str = "application/octet-stream";

/// The result of a call. `structured`: the client expects structured content, because the tool has an output schema.
pub(crate) fn of(result: CallResult, structured: bool) -> CallToolResult {
    let CallResult { id, outcome, .. } = result;
    match outcome {
        Ok(parts) => {
            let value = if structured { parts.iter().find_map(json) } else { None };
            let blocks = parts.into_iter().enumerate().map(|(at, part)| block(part, &id, at)).collect();
            let mut answer = CallToolResult::success(blocks);
            answer.structured_content = value;
            answer
        }
        Err(error) => failure(&error),
    }
}

/// What a model can repair the call from: the kind, what was wrong, what to do.
fn failure(error: &CallError) -> CallToolResult {
    let mut text = format!("{}: {}", error.kind, printable(&error.message));
    if let Some(hint) = &error.hint {
        text.push_str(&format!("\n{}", printable(hint)));
    }
    if let Some(after) = error.retry_after {
        text.push_str(&format!("\nIt is worth another try after {} ms.", after.as_millis()));
    }
    let mut answer = CallToolResult::error(vec![ContentBlock::text(text)]);
    if let Ok(value) = serde_json::to_value(error) {
        let mut meta = MetaObject::new();
        meta.0.insert(ERROR.to_owned(), value);
        answer.meta = Some(meta);
    }
    answer
}

fn json(part: &Content) -> Option<Value> {
    match part {
        Content::Json { value } => serde_json::from_str(value.as_str()).ok(),
        Content::Text { .. } | Content::Blob { .. } | Content::Link { .. } => None,
    }
}

fn block(part: Content, call: &str, at: usize) -> ContentBlock {
    match part {
        Content::Text { text } => ContentBlock::text(shown(text)),
        Content::Json { value } => ContentBlock::text(value.as_str()),
        Content::Blob { mime_type, data } => blob(&mime_type, data, format!("fumehood://{call}/{at}")),
        Content::Link { uri, title, mime_type } => {
            let title = title.map(shown);
            let mut link = Resource::new(uri.clone(), title.clone().unwrap_or(uri));
            link.title = title;
            link.mime_type = mime_type.map(|mime| sound(&mime).to_owned());
            ContentBlock::ResourceLink(link)
        }
    }
}

/// Bytes of a media type as the content type that clients expect for it.
pub(crate) fn blob(mime_type: &str, data: Vec<u8>, uri: String) -> ContentBlock {
    let mime = sound(mime_type);
    match mime.split_once('/').map_or("", |(kind, _)| kind) {
        "image" => ContentBlock::image(encoded(&data), mime),
        "audio" => ContentBlock::audio(encoded(&data), mime),
        "text" => match String::from_utf8(data) {
            Ok(text) => resource(ResourceContents::text(shown(text), uri), mime),
            Err(bytes) => resource(ResourceContents::blob(encoded(bytes.as_bytes()), uri), mime),
        },
        _ => resource(ResourceContents::blob(encoded(&data), uri), mime),
    }
}

/// The text that these bytes are, unless their media type says otherwise or they are none.
pub(crate) fn text_of(mime_type: &str, bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    if ["image/", "audio/", "video/"].iter().any(|kind| mime_type.starts_with(kind)) {
        return Err(bytes);
    }
    String::from_utf8(bytes)
        .map(|text| shown(text.replace("\r\n", "\n")))
        .map_err(std::string::FromUtf8Error::into_bytes)
}

/// Bytes as the protocol has them.
pub(crate) fn encoded(data: &[u8]) -> String {
    BASE64_STANDARD.encode(data)
}

fn resource(contents: ResourceContents, mime: &str) -> ContentBlock {
    ContentBlock::resource(contents.with_mime_type(mime))
}

/// Without what a reader would not see and a terminal would act on.
fn shown(text: String) -> String {
    match printable(&text) {
        std::borrow::Cow::Borrowed(_) => text,
        std::borrow::Cow::Owned(clean) => clean,
    }
}

/// The text if it looks like a MIME type, such as `image/png` or `text/plain; charset=utf-8`.
fn sound(mime_type: &str) -> &str {
    let token =
        |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&c));
    let (essence, rest) = mime_type.split_once(';').unwrap_or((mime_type, ""));
    let plain = rest.bytes().all(|c| c.is_ascii_graphic() || c == b' ');
    match essence.trim_end().split_once('/') {
        Some((kind, subtype)) if token(kind) && token(subtype) && plain => mime_type,
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fumehood_core::error_kind::ErrorKind;
    use fumehood_core::result::Metadata;
    use serde_json::json;

    use super::*;

    fn check(outcome: Result<Vec<Content>, CallError>, structured: bool, expected: Value) {
        let result = CallResult { id: "1".to_owned(), tool: "t".to_owned(), outcome, metadata: Metadata::default() };
        let mut found = serde_json::to_value(of(result, structured)).unwrap();
        found.as_object_mut().unwrap().remove("resultType");
        assert_eq!(found, expected);
    }

    fn part(part: Content, expected: Value) {
        check(Ok(vec![part]), false, json!({"content": [expected], "isError": false}));
    }

    #[test]
    fn every_part_has_its_content_type() {
        let blob = |mime: &str, data: &[u8]| Content::Blob { mime_type: mime.to_owned(), data: data.to_vec() };
        part(Content::text("hi"), json!({"type": "text", "text": "hi"}));
        part(Content::text("a\u{1b}[2Jb"), json!({"type": "text", "text": "a\\u{1b}[2Jb"}));
        part(blob("image/png", &[0]), json!({"type": "image", "data": "AA==", "mimeType": "image/png"}));
        part(blob("audio/wav", &[0]), json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}));
        let bytes = json!({"uri": "fumehood://1/0", "mimeType": "application/octet-stream", "blob": "AA=="});
        part(blob("application/octet-stream", &[0]), json!({"type": "resource", "resource": bytes}));
        part(blob("no type\n", &[0]), json!({"type": "resource", "resource": bytes}));
        part(blob("image/\u{1b}", &[0]), json!({"type": "resource", "resource": bytes}));
        let text = json!({"uri": "fumehood://1/0", "mimeType": "text/csv", "text": "a,b"});
        part(blob("text/csv", b"a,b"), json!({"type": "resource", "resource": text}));
        let link = Content::Link { uri: "https://example.com/".to_owned(), title: None, mime_type: None };
        let plain = json!({"type": "resource_link", "uri": "https://example.com/", "name": "https://example.com/"});
        part(link, plain);
    }

    #[test]
    fn json_is_structured_where_the_client_was_told_a_schema() {
        let value = || Ok(vec![Content::json(r#"{"a": 1}"#.to_owned()).unwrap()]);
        let text = json!([{"type": "text", "text": "{\"a\": 1}"}]);
        check(value(), false, json!({"content": text, "isError": false}));
        check(value(), true, json!({"content": text, "isError": false, "structuredContent": {"a": 1}}));
    }

    #[test]
    fn a_failure_says_what_to_do() {
        let mut error = CallError::new(ErrorKind::Unavailable, "busy").with_hint("try again");
        error.retry_after = Some(Duration::from_millis(50));
        let text = "unavailable: busy\ntry again\nIt is worth another try after 50 ms.";
        let meta = json!({"kind": "unavailable", "message": "busy", "hint": "try again", "retry_after_ms": 50.0});
        let expected = json!({
            "content": [{"type": "text", "text": text}], "isError": true, "_meta": {"fumehood/error": meta}
        });
        check(Err(error), true, expected);
    }
}
