//! Conversion of a server's [`CallToolResult`] into [`Content`].

use std::sync::Arc;

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::text::base64::decode_base64;
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::{MAX_INLINE_STEPS, Tool};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// Converts an answer into content. A result with `isError` becomes the failure of the tool.
///
/// # Errors
/// If the tool failed, or answered with content of an unknown kind or with more than `max_bytes` bytes.
pub(crate) fn into_content(answer: CallToolResult, max_bytes: usize) -> Result<Vec<Content>, CallError> {
    let failed = answer.is_error == Some(true);
    let mut parts = answer.content.into_iter().map(into_part).collect::<Result<Vec<_>, _>>()?;
    // The other form of the result: see `ResultForm`. Some servers write null where they have none.
    if let Some(value) = answer.structured_content.filter(|value| !failed && (parts.is_empty() || !value.is_null())) {
        parts.push(Content::json(value.to_string()).map_err(|error| invalid_result(&error.to_string()))?);
    }
    let bytes: usize = parts.iter().map(Content::bytes).sum();
    if bytes > max_bytes {
        return Err(CallError::new(
            ErrorKind::OutputTooLarge,
            format!("the result has {bytes} bytes; at most {max_bytes} are taken"),
        )
        .with_hint("ask for less at once"));
    }
    if failed { Err(tool_failure(&parts)) } else { Ok(parts) }
}

/// Returns the content if its JSON matches the tool's own output schema, checked on another thread if that may take long.
/// Content without JSON passes: many servers have an output schema and answer with text.
///
/// # Errors
/// If it does not match.
pub(crate) async fn check_output(tool: Arc<Tool>, parts: Vec<Content>) -> Result<Vec<Content>, CallError> {
    if !parts.iter().any(|part| matches!(part, Content::Json { .. })) {
        return Ok(parts);
    }
    if tool.result_steps(&parts) <= MAX_INLINE_STEPS {
        return tool.check_result(&parts).map(|()| parts);
    }
    let checked = tokio::task::spawn_blocking(move || tool.check_result(&parts).map(|()| parts)).await;
    checked.unwrap_or_else(|_| Err(CallError::new(ErrorKind::Host, "the check of the result came to no end")))
}

fn tool_failure(parts: &[Content]) -> CallError {
    let texts: Vec<_> = parts
        .iter()
        .filter_map(|part| match part {
            // Raw, because the error message escapes hidden characters and counts them.
            Content::Text { text } => Some(text.expose_raw().as_str()),
            Content::Json { .. } | Content::Blob { .. } | Content::Link { .. } => None,
        })
        .collect();
    let message = if texts.is_empty() { "the tool failed and did not say why".to_owned() } else { texts.join("\n") };
    CallError::new(ErrorKind::ToolFailed, message)
}

fn invalid_result(why: &str) -> CallError {
    CallError::new(ErrorKind::BadResult, format!("the server's answer is no result: {why}"))
}

fn into_part(block: ContentBlock) -> Result<Content, CallError> {
    Ok(match block {
        ContentBlock::Text(text) => Content::text(text.text),
        ContentBlock::Image(image) => into_blob(image.mime_type, &image.data)?,
        ContentBlock::Audio(audio) => into_blob(audio.mime_type, &audio.data)?,
        ContentBlock::ResourceLink(link) => Content::Link {
            uri: link.uri.into(),
            title: link.title.or(Some(link.name)).map(Untrusted::new),
            mime_type: link.mime_type.map(Untrusted::new),
        },
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => Content::text(text),
            ResourceContents::BlobResourceContents { mime_type, blob: data, .. } => {
                into_blob(mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()), &data)?
            }
            _ => return Err(invalid_result("a resource of a kind that is not known here")),
        },
        _ => return Err(invalid_result("content of a kind that is not known here")),
    })
}

fn into_blob(mime_type: String, data: &str) -> Result<Content, CallError> {
    let data = decode_base64(data).map_err(|error| invalid_result(&format!("its data is not base64: {error}")))?;
    Ok(Content::Blob { mime_type: mime_type.into(), data })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(answer: Value, expected: Value) {
        let found = match into_content(serde_json::from_value(answer).unwrap(), 100) {
            Ok(parts) => serde_json::to_value(parts).unwrap(),
            Err(error) => json!(error.to_string()),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn counts_hidden_characters_of_a_failure() {
        let texts = json!([{"type": "text", "text": "a\u{200b}"}, {"type": "text", "text": "\u{1b}[2J"}]);
        let answer = json!({"content": texts, "isError": true});
        let error = into_content(serde_json::from_value(answer).unwrap(), 100).unwrap_err();
        assert_eq!((error.message.as_str(), error.hidden_chars()), ("a\\u{200b}\n\\u{1b}[2J", 2));
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
        check(json!({"content": [], "isError": true}), json!("tool_failed: the tool failed and did not say why"));
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        check(json!({"content": [image]}), json!([{"type": "blob", "mime_type": "image/png", "data": "AA=="}]));
        let image = json!({"type": "image", "data": "-_8\r\n", "mimeType": "image/png"});
        check(json!({"content": [image]}), json!([{"type": "blob", "mime_type": "image/png", "data": "+/8="}]));
        let broken = json!({"type": "image", "data": "!", "mimeType": "image/png"});
        let why = "bad_result: the server's answer is no result: its data is not base64: Invalid symbol 33, offset 0.";
        check(json!({"content": [broken]}), json!(why));
        let long = json!({"type": "text", "text": "x".repeat(101)});
        let why = "output_too_large: the result has 101 bytes; at most 100 are taken (ask for less at once)";
        check(json!({"content": [long]}), json!(why));
    }
}
