//! Conversion of a [`CallResult`] into the `tools/call` result of the protocol.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fumehood_core::call::ResultMembers;
use fumehood_core::call::content::{Content, JsonText};
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::tool::ResultForm;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Resource, ResourceContents};
use serde_json::{Value, json};

use super::catalogue::AnswerForm;
use super::part_members::PartMembers;
use crate::server::sanitizer::Sanitizer;

/// Key in `_meta` under which a failed result carries the whole [`CallError`], for programs.
pub(crate) const ERROR_META_KEY: &str = "fumehood/error";
/// MIME type of content whose own type is absent or malformed.
const FALLBACK_MIME_TYPE: &str = "application/octet-stream";

/// Converts the result of a call. The client gets structured content if it expects that, because the tool has an output
/// schema, or if the tool is that of a server which wrote it.
pub(crate) fn into_call_tool_result(result: CallResult, form: AnswerForm) -> CallToolResult {
    let CallResult { id, outcome, metadata, .. } = result;
    let mut sanitizer = Sanitizer::default();
    let members = metadata.members.unwrap_or_default();
    let parts_of = PartMembers::new(members.parts.as_ref());
    let mut answer = match outcome {
        Ok(parts) => content_result(parts, &id, &parts_of, form, &mut sanitizer),
        Err(error) => error_result(error, &id, &parts_of, form, &mut sanitizer),
    };
    add_metadata(&mut answer, &members);
    sanitizer.at_least(metadata.sanitized);
    sanitizer.report(&mut answer.meta);
    answer
}

/// Adds the metadata of the server's result, below those of ours.
fn add_metadata(answer: &mut CallToolResult, members: &ResultMembers) {
    let Some(Value::Object(meta)) = members.meta.as_ref().map(|meta| meta.to_sanitized().into_owned()) else { return };
    let own = answer.meta.take().unwrap_or_default();
    answer.meta = Some(MetaObject(meta.into_iter().chain(own.0).collect()));
}

/// Builds the result of these parts of a call.
fn content_result(
    parts: Vec<Content>,
    call: &str,
    members: &PartMembers,
    form: AnswerForm,
    sanitizer: &mut Sanitizer,
) -> CallToolResult {
    let mut value = None;
    let is_repeated = form.result.repeats(&parts);
    let is_structured = form.structured || form.result != ResultForm::Parts;
    let blocks = parts.into_iter().enumerate().filter_map(|(at, part)| match part {
        Content::Json { value: text } => {
            let (text, read) = format_json(&text, is_structured && value.is_none(), sanitizer);
            value = value.take().or(read);
            (!is_repeated).then(|| ContentBlock::text(text))
        }
        other => Some(members.set(at, content_block(other, call, at, sanitizer))),
    });
    let mut answer = CallToolResult::success(blocks.collect());
    answer.structured_content = value;
    answer
}

/// Builds an error result: that of a server as it wrote it, and otherwise one with what a model needs to repair the call:
/// the kind, the message, the hint.
fn error_result(
    mut error: CallError,
    call: &str,
    members: &PartMembers,
    form: AnswerForm,
    sanitizer: &mut Sanitizer,
) -> CallToolResult {
    let mut details = error.details.take().unwrap_or_default();
    let mut answer = if details.content.is_empty() {
        CallToolResult::error(vec![ContentBlock::text(error_text(&error))])
    } else {
        let mut written = content_result(std::mem::take(&mut details.content), call, members, form, sanitizer);
        written.is_error = Some(true);
        written
    };
    error.details = Some(details);
    if let Some(about) = describe_error(error) {
        answer.meta.get_or_insert_default().0.insert(ERROR_META_KEY.to_owned(), about);
    }
    answer
}

/// Returns an error for programs, without the parts of a result.
pub(crate) fn describe_error(mut error: CallError) -> Option<Value> {
    let details = error.details.take().unwrap_or_default();
    let Ok(Value::Object(mut about)) = serde_json::to_value(error) else { return None };
    // Those of a JSON-RPC error of the server.
    about.extend(details.code.map(|code| ("code".to_owned(), json!(code))));
    about.extend(details.data.map(|data| ("data".to_owned(), data.to_sanitized().into_owned())));
    Some(Value::Object(about))
}

/// Formats a failure for a model. All of it is printable text already.
fn error_text(error: &CallError) -> String {
    let mut text = format!("{}: {}", error.kind, error.message);
    if let Some(hint) = &error.hint {
        text.push_str(&format!("\n{hint}"));
    }
    if let Some(after) = error.retry_after {
        text.push_str(&format!("\nRetry after {} ms.", after.as_millis()));
    }
    text
}

/// Returns JSON of a tool as text, and as a value if `structured` is true. If nothing in it is hidden, the text is the
/// tool's own.
fn format_json(value: &JsonText, structured: bool, sanitizer: &mut Sanitizer) -> (String, Option<Value>) {
    let is_plain = value.hidden_chars() == 0;
    if is_plain && !structured {
        return (value.to_sanitized().into_owned(), None);
    }
    // It was parsed once, so it parses again.
    let Ok(read) = value.read::<Value>() else { return (value.to_sanitized().into_owned(), None) };
    let clean = sanitizer.value(read);
    sanitizer.at_least(value.hidden_chars());
    let text = if is_plain { value.to_sanitized().into_owned() } else { clean.to_string() };
    (text, structured.then_some(clean))
}

fn content_block(part: Content, call: &str, at: usize, sanitizer: &mut Sanitizer) -> ContentBlock {
    match part {
        Content::Text { text } => ContentBlock::text(sanitizer.untrusted(&text)),
        Content::Json { value } => ContentBlock::text(format_json(&value, false, sanitizer).0),
        Content::Blob { mime_type, data } => {
            let mime_type = sanitizer.untrusted(&mime_type);
            blob_block(&mime_type, data, format!("fumehood://{call}/{at}"), sanitizer)
        }
        Content::Link { uri, title, mime_type } => {
            let title = title.map(|title| sanitizer.untrusted(&title));
            let uri = sanitizer.uri(&uri);
            let mut link = Resource::new(uri.clone(), title.clone().unwrap_or(uri));
            link.title = title;
            link.mime_type = mime_type.map(|mime| valid_mime_type(&sanitizer.untrusted(&mime)).to_owned());
            ContentBlock::ResourceLink(link)
        }
    }
}

/// Returns bytes as the content type that clients expect for their MIME type: image, audio or embedded resource.
pub(crate) fn blob_block(mime_type: &str, data: Vec<u8>, uri: String, sanitizer: &mut Sanitizer) -> ContentBlock {
    let mime = valid_mime_type(mime_type);
    match mime.split_once('/').map_or("", |(kind, _)| kind) {
        "image" => ContentBlock::image(encode_base64(&data), mime),
        "audio" => ContentBlock::audio(encode_base64(&data), mime),
        "text" => match String::from_utf8(data) {
            Ok(text) => embedded_resource(ResourceContents::text(sanitizer.text(text), uri), mime),
            Err(bytes) => embedded_resource(ResourceContents::blob(encode_base64(bytes.as_bytes()), uri), mime),
        },
        _ => embedded_resource(ResourceContents::blob(encode_base64(&data), uri), mime),
    }
}

/// Decodes bytes as UTF-8, with line feeds as line ends. Returns the bytes if the MIME type is that of an image, audio
/// or video, or if they are not UTF-8.
pub(crate) fn decode_text(mime_type: &str, bytes: Vec<u8>, sanitizer: &mut Sanitizer) -> Result<String, Vec<u8>> {
    if ["image/", "audio/", "video/"].iter().any(|kind| mime_type.starts_with(kind)) {
        return Err(bytes);
    }
    String::from_utf8(bytes)
        .map(|text| sanitizer.text(text.replace("\r\n", "\n")))
        .map_err(std::string::FromUtf8Error::into_bytes)
}

/// Encodes bytes in base64 with padding, as the protocol carries them (RFC 4648, section 4).
pub(crate) fn encode_base64(data: &[u8]) -> String {
    BASE64_STANDARD.encode(data)
}

fn embedded_resource(contents: ResourceContents, mime: &str) -> ContentBlock {
    ContentBlock::resource(contents.with_mime_type(mime))
}

/// Returns the text if it has the form of a MIME type, such as `image/png` or `text/plain; charset=utf-8`, and
/// [`FALLBACK_MIME_TYPE`] otherwise.
fn valid_mime_type(mime_type: &str) -> &str {
    let (essence, rest) = mime_type.split_once(';').unwrap_or((mime_type, ""));
    let plain = rest.bytes().all(|c| c.is_ascii_graphic() || c == b' ');
    match essence.trim_end().split_once('/') {
        Some((kind, subtype)) if is_token(kind) && is_token(subtype) && plain => mime_type,
        _ => FALLBACK_MIME_TYPE,
    }
}

/// Returns whether a text may be a type or a subtype (RFC 6838, section 4.2).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&c))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fumehood_core::call::error_kind::ErrorKind;
    use fumehood_core::call::result::Metadata;
    use serde_json::json;

    use super::*;

    fn check(outcome: Result<Vec<Content>, CallError>, structured: bool, expected: Value) {
        check_form(outcome, AnswerForm { structured, result: ResultForm::Parts }, expected);
    }

    fn check_form(outcome: Result<Vec<Content>, CallError>, form: AnswerForm, expected: Value) {
        let result = CallResult { id: "1".to_owned(), tool: "t".to_owned(), outcome, metadata: Metadata::default() };
        let mut found = serde_json::to_value(into_call_tool_result(result, form)).unwrap();
        found.as_object_mut().unwrap().remove("resultType");
        assert_eq!(found, expected);
    }

    fn part(part: Content, expected: Value) {
        check(Ok(vec![part]), false, json!({"content": [expected], "isError": false}));
    }

    fn blob(mime: &str, data: &[u8]) -> Content {
        Content::Blob { mime_type: mime.into(), data: data.to_vec() }
    }

    #[test]
    fn converts_every_kind_of_content() {
        part(Content::text("hi"), json!({"type": "text", "text": "hi"}));
        part(blob("image/png", &[0]), json!({"type": "image", "data": "AA==", "mimeType": "image/png"}));
        part(blob("audio/wav", &[0]), json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}));
        let bytes = json!({"uri": "fumehood://1/0", "mimeType": "application/octet-stream", "blob": "AA=="});
        part(blob("application/octet-stream", &[0]), json!({"type": "resource", "resource": bytes}));
        part(blob("no type\n", &[0]), json!({"type": "resource", "resource": bytes}));
        let text = json!({"uri": "fumehood://1/0", "mimeType": "text/csv", "text": "a,b"});
        part(blob("text/csv", b"a,b"), json!({"type": "resource", "resource": text}));
        let link = Content::Link { uri: "https://example.com/".into(), title: None, mime_type: None };
        let plain = json!({"type": "resource_link", "uri": "https://example.com/", "name": "https://example.com/"});
        part(link, plain);
    }

    fn check_hidden(part: Content, structured: bool, count: u64, block: Value, structure: Option<Value>) {
        let mut expected = json!({"content": [block], "isError": false, "_meta": {"fumehood/sanitized": count}});
        if let Some(structure) = structure {
            expected["structuredContent"] = structure;
        }
        check(Ok(vec![part]), structured, expected);
    }

    fn text_block(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    fn resource_block(mime: &str, key: &str, data: &str) -> Value {
        json!({"type": "resource", "resource": {"uri": "fumehood://1/0", "mimeType": mime, key: data}})
    }

    fn json_content(text: &str) -> Content {
        Content::json(text.to_owned()).unwrap()
    }

    #[test]
    fn escapes_and_counts_hidden_characters() {
        check_hidden(Content::text("a\u{1b}[2Jb\u{2800}"), false, 2, text_block("a\\u{1b}[2Jb\\u{2800}"), None);
        let value = "{\"a\u{202e}\": \"\\u001b[1m\", \"b\": 2.50}";
        // As the tool wrote the number.
        let clean: Value = serde_json::from_str(r#"{"a\\u{202e}": "\\u{1b}[1m", "b": 2.50}"#).unwrap();
        check_hidden(json_content(value), true, 2, text_block(&clean.to_string()), Some(clean.clone()));
        check_hidden(json_content(value), false, 2, text_block(&clean.to_string()), None);
        let link = Content::Link {
            uri: "a:\u{200b}".into(),
            title: Some("e\u{e0041}".into()),
            mime_type: Some("e\u{e0041}".into()),
        };
        let mime = "application/octet-stream";
        let block = json!({"type": "resource_link", "uri": "a:%E2%80%8B", "name": "e\\u{e0041}", "title": "e\\u{e0041}",
            "mimeType": mime});
        check_hidden(link, false, 3, block, None);
        check_hidden(blob("image/\u{1b}", &[0]), false, 1, resource_block(mime, "blob", "AA=="), None);
        check_hidden(
            blob("text/csv", "a\u{3164}".as_bytes()),
            false,
            1,
            resource_block("text/csv", "text", "a\\u{3164}"),
            None,
        );
    }

    #[test]
    fn structures_json_if_an_output_schema_was_listed() {
        let text = json!([{"type": "text", "text": "{\"a\": 1}"}]);
        check(Ok(vec![json_content(r#"{"a": 1}"#)]), false, json!({"content": text, "isError": false}));
        check(
            Ok(vec![json_content(r#"{"a": 1}"#)]),
            true,
            json!({"content": text, "isError": false, "structuredContent": {"a": 1}}),
        );
    }

    #[test]
    fn results_of_servers_keep_both_forms() {
        for result in [ResultForm::TextFirst, ResultForm::StructuredFirst] {
            let form = AnswerForm { structured: false, result };
            let both = json!({"content": [text_block("sunny")], "structuredContent": {"t": 22}, "isError": false});
            check_form(Ok(vec![Content::text("sunny"), json_content(r#"{"t": 22}"#)]), form, both);
            let one = json!({"content": [text_block("{\"t\": 22}")], "structuredContent": {"t": 22}, "isError": false});
            check_form(Ok(vec![json_content(r#"{"t": 22}"#)]), form, one);
        }
    }

    #[test]
    fn failures_include_hint_and_retry() {
        let mut error = CallError::new(ErrorKind::Unavailable, "busy").with_hint("try again");
        error.retry_after = Some(Duration::from_millis(50));
        let text = "unavailable: busy\ntry again\nRetry after 50 ms.";
        let meta = json!({"kind": "unavailable", "message": "busy", "hint": "try again", "retry_after_ms": 50.0});
        let expected = json!({
            "content": [{"type": "text", "text": text}], "isError": true, "_meta": {"fumehood/error": meta}
        });
        check(Err(error), true, expected);
    }
}
