//! Conversion of a server's [`CallToolResult`] into [`Content`].

use std::sync::Arc;

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::call::{ErrorDetails, ResultMembers};
use fumehood_core::text::base64::decode_base64;
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::{MAX_INLINE_STEPS, Tool};
use rmcp::model::{
    Annotations, CallToolResult, ContentBlock, EmbeddedResource, MetaObject, Resource, ResourceContents,
};
use serde_json::{Map, Value, json};

use super::metadata::{passed_metadata, retain_safe_icons};
use crate::apps;

/// The answer of a server to a call.
pub(crate) struct Answer {
    /// The parts of the result, or the failure of the tool.
    pub(crate) outcome: Result<Vec<Content>, CallError>,
    /// Members of the result besides its parts.
    pub(crate) members: Option<Box<ResultMembers>>,
}

/// A part of a result, and its members that have no place in it.
struct Part {
    content: Content,
    members: Map<String, Value>,
}

/// Converts an answer into content. A result with `isError` becomes the failure of the tool, with its parts as details.
///
/// # Errors
/// If the server answered with content of an unknown kind or with more than `max_bytes` bytes.
fn read_answer(answer: CallToolResult, max_bytes: usize) -> Result<Answer, CallError> {
    let CallToolResult { content, structured_content, is_error, meta, .. } = answer;
    let parts = content.into_iter().map(into_part).collect::<Vec<_>>();
    let has_members = parts.iter().any(|part| !part.members.is_empty());
    let (mut content, members): (Vec<_>, Vec<_>) = parts.into_iter().map(|part| (part.content, part.members)).unzip();
    // The other form of the result: see `ResultForm`. Some servers write null where they have none.
    if let Some(value) = structured_content.filter(|value| content.is_empty() || !value.is_null()) {
        content.push(Content::json(value.to_string()).map_err(|error| invalid_result(&error.to_string()))?);
    }
    let parts = members.into_iter().map(|part| if part.is_empty() { Value::Null } else { Value::Object(part) });
    let members = ResultMembers {
        meta: meta.and_then(|meta| passed_metadata(meta.0)).map(Untrusted::new),
        parts: has_members.then(|| Untrusted::new(parts.collect())),
    };
    check_size(&content, members.bytes(), max_bytes)?;
    let outcome = if is_error == Some(true) { Err(tool_failure(content)) } else { Ok(content) };
    Ok(Answer { outcome, members: (members != ResultMembers::default()).then(|| Box::new(members)) })
}

/// Converts a result of another method into content.
///
/// # Errors
/// If it has more than `max_bytes` bytes.
pub(crate) fn read_json(result: &Value, max_bytes: usize) -> Result<Answer, CallError> {
    let part = Content::json(result.to_string()).map_err(|error| invalid_result(&error.to_string()))?;
    let parts = vec![part];
    check_size(&parts, 0, max_bytes)?;
    Ok(Answer { outcome: Ok(parts), members: None })
}

fn check_size(parts: &[Content], more_bytes: usize, max_bytes: usize) -> Result<(), CallError> {
    let bytes = parts.iter().map(Content::bytes).sum::<usize>().saturating_add(more_bytes);
    if bytes <= max_bytes {
        return Ok(());
    }
    let why = format!("the result has {bytes} bytes; the maximum is {max_bytes}");
    Err(CallError::new(ErrorKind::OutputTooLarge, why).with_hint("ask for less at once"))
}

/// Like [`read_answer`], for an answer of this tool, whose output schema is checked.
pub(crate) async fn read_checked(
    answer: CallToolResult,
    max_bytes: usize,
    tool: Arc<Tool>,
) -> Result<Answer, CallError> {
    let Answer { outcome, members } = read_answer(answer, max_bytes)?;
    let outcome = match outcome {
        Ok(parts) => Ok(check_output(tool, parts).await?),
        Err(failure) => Err(failure),
    };
    Ok(Answer { outcome, members })
}

/// Returns the content if its JSON matches the tool's own output schema, checked on another thread if that may take long.
/// Content without JSON passes: many servers have an output schema and answer with text.
///
/// # Errors
/// If it does not match.
async fn check_output(tool: Arc<Tool>, parts: Vec<Content>) -> Result<Vec<Content>, CallError> {
    if !parts.iter().any(|part| matches!(part, Content::Json { .. })) {
        return Ok(parts);
    }
    if tool.result_steps(&parts) <= MAX_INLINE_STEPS {
        return tool.check_result(&parts).map(|()| parts);
    }
    let checked = tokio::task::spawn_blocking(move || tool.check_result(&parts).map(|()| parts)).await;
    checked.unwrap_or_else(|_| Err(CallError::new(ErrorKind::Host, "the check of the result did not finish")))
}

fn tool_failure(parts: Vec<Content>) -> CallError {
    let texts: Vec<_> = parts
        .iter()
        .filter_map(|part| match part {
            // Raw, because the error message escapes hidden characters and counts them.
            Content::Text { text } => Some(text.expose_raw().as_str()),
            Content::Json { .. } | Content::Blob { .. } | Content::Link { .. } => None,
        })
        .collect();
    let message = if texts.is_empty() { "the tool failed without a reason".to_owned() } else { texts.join("\n") };
    CallError::new(ErrorKind::ToolFailed, message)
        .with_details(ErrorDetails { content: parts, ..ErrorDetails::default() })
}

fn invalid_result(why: &str) -> CallError {
    CallError::new(ErrorKind::BadResult, format!("the server's answer is not a result: {why}"))
}

fn into_part(block: ContentBlock) -> Part {
    match block {
        ContentBlock::Text(text) => Part::new(Content::text(text.text), text.annotations, text.meta),
        ContentBlock::Image(image) => Part::new(into_blob(image.mime_type, &image.data), image.annotations, image.meta),
        ContentBlock::Audio(audio) => Part::new(into_blob(audio.mime_type, &audio.data), audio.annotations, audio.meta),
        ContentBlock::ResourceLink(link) => link_part(link),
        ContentBlock::Resource(embedded) => {
            let EmbeddedResource { resource, meta, annotations, .. } = embedded;
            resource_part(resource, annotations, meta)
        }
        _ => unreadable_part("content of an unknown kind"),
    }
}

/// Returns a text in place of a part that cannot be read, so that the others are kept.
fn unreadable_part(why: &str) -> Part {
    Part::new(unreadable(why), None, None)
}

fn unreadable(why: &str) -> Content {
    Content::text(format!("[a malformed part: {why}]"))
}

fn link_part(link: Resource) -> Part {
    // Without its URI it is no page of MCP Apps any more.
    if apps::is_app_uri(&link.uri) {
        let name = link.title.as_deref().unwrap_or(&link.name);
        return Part::new(Content::text(format!("[a page of the server: {name}]")), link.annotations, link.meta);
    }
    let annotations = link.annotations.clone();
    let meta = link.meta.clone();
    let content = Content::Link {
        uri: link.uri.clone().into(),
        title: link.title.clone().or(Some(link.name.clone())).map(Untrusted::new),
        mime_type: link.mime_type.clone().map(Untrusted::new),
    };
    let mut part = Part::new(content, annotations, meta);
    if let Value::Object(others) = json!(link) {
        let known = ["uri", "mimeType", "annotations", "_meta"];
        part.members.extend(others.into_iter().filter(|(name, _)| !known.contains(&name.as_str())));
        retain_safe_icons(&mut part.members);
    }
    part
}

fn resource_part(resource: ResourceContents, annotations: Option<Annotations>, meta: Option<MetaObject>) -> Part {
    let (content, uri, mime_type, own_meta) = match resource {
        ResourceContents::TextResourceContents { uri, mime_type, text, meta } => {
            (Content::text(text), uri, mime_type, meta)
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, meta } => {
            let declared = mime_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
            (into_blob(declared, &blob), uri, mime_type, meta)
        }
        _ => return unreadable_part("a resource of an unknown kind"),
    };
    let mut part = Part::new(content, annotations, meta);
    // Without its URI it is no resource of MCP Apps any more, and no client runs it.
    if !apps::is_app_uri(&uri) {
        let mut resource = Map::from_iter([("uri".to_owned(), uri.into())]);
        resource.extend(mime_type.map(|mime_type| ("mimeType".to_owned(), mime_type.into())));
        let own_meta = own_meta.and_then(|meta| passed_metadata(meta.0));
        resource.extend(own_meta.map(|meta| ("_meta".to_owned(), meta)));
        part.members.insert("resource".to_owned(), resource.into());
    }
    part
}

impl Part {
    fn new(content: Content, annotations: Option<Annotations>, meta: Option<MetaObject>) -> Self {
        let annotations = annotations.map(|annotations| ("annotations".to_owned(), json!(annotations)));
        let meta = meta.and_then(|meta| passed_metadata(meta.0)).map(|meta| ("_meta".to_owned(), meta));
        Self { content, members: annotations.into_iter().chain(meta).collect() }
    }
}

fn into_blob(mime_type: String, data: &str) -> Content {
    match decode_base64(data) {
        Ok(data) => Content::Blob { mime_type: mime_type.into(), data },
        Err(error) => unreadable(&format!("the data of the type {mime_type} is not base64: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: Value) -> Result<Vec<Content>, CallError> {
        read_answer(serde_json::from_value(answer).unwrap(), 100)?.outcome
    }

    fn check(answer: Value, expected: Value) {
        let found = match read(answer) {
            Ok(parts) => serde_json::to_value(parts).unwrap(),
            Err(error) => json!(error.to_string()),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn counts_hidden_characters_of_a_failure() {
        let texts = json!([{"type": "text", "text": "a\u{200b}"}, {"type": "text", "text": "\u{1b}[2J"}]);
        let answer = json!({"content": texts, "isError": true});
        let error = read(answer).unwrap_err();
        assert_eq!((error.message.as_str(), error.hidden_chars()), ("a\\u{200b}\n\\u{1b}[2J", 2));
    }

    fn text_block(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn converts_answers_to_content() {
        let text = json!({"type": "text", "text": "hi"});
        check(json!({"content": [text]}), json!([{"type": "text", "text": "hi"}]));
        let both = json!([{"type": "text", "text": "hi"}, {"type": "json", "value": {"a": 1}}]);
        check(json!({"content": [text], "structuredContent": {"a": 1}}), both);
        check(json!({"content": [text], "structuredContent": null}), json!([{"type": "text", "text": "hi"}]));
        check(json!({"structuredContent": [1]}), json!([{"type": "json", "value": [1]}]));
        check(json!({"content": [text], "isError": true}), json!("tool_failed: hi"));
        check(json!({"content": [], "isError": true}), json!("tool_failed: the tool failed without a reason"));
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        check(json!({"content": [image]}), json!([{"type": "blob", "mime_type": "image/png", "data": "AA=="}]));
        let image = json!({"type": "image", "data": "-_8\r\n", "mimeType": "image/png"});
        check(json!({"content": [image]}), json!([{"type": "blob", "mime_type": "image/png", "data": "+/8="}]));
        let page = json!({"type": "resource_link", "uri": "ui://x", "name": "x"});
        check(json!({"content": [page]}), json!([{"type": "text", "text": "[a page of the server: x]"}]));
        let broken = json!({"type": "image", "data": "!", "mimeType": "a/b"});
        let why = "[a malformed part: the data of the type a/b is not base64: Invalid symbol 33, offset 0.]";
        check(json!({"content": [broken, text_block("!")]}), json!([text_block(why), text_block("!")]));
        let long = json!({"type": "text", "text": "x".repeat(101)});
        let why = "output_too_large: the result has 101 bytes; the maximum is 100 (ask for less at once)";
        check(json!({"content": [long]}), json!(why));
    }
}
