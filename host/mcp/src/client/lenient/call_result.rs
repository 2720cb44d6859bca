//! Results of tools in other forms than the protocol's.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value};

use super::{quote, quote_at_most};

/// Members of a part that the host does not need. A part is read again without them.
const OPTIONAL_MEMBERS: [&str; 6] = ["annotations", "_meta", "icons", "size", "title", "description"];

/// Members of a result that are not the value which a server means.
const KNOWN_MEMBERS: [&str; 5] = ["_meta", "resultType", "isError", "structuredContent", "toolResult"];

/// Maximum length of an unknown part that is quoted, in characters.
const MAX_PART_CHARS: usize = 16 << 10;
/// The first bytes of images in the formats that clients show, in base64, and their MIME types.
const IMAGE_SIGNATURES: [(&str, &str); 4] =
    [("iVBORw0KGgo", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp")];

/// Reads a result part by part. A part that cannot be read becomes a text that says so.
pub(crate) fn read_call_result(value: Value) -> CallToolResult {
    let mut result = match value {
        Value::Object(members) => members,
        // Neither has another meaning than that of the content.
        content => Map::from_iter([("content".to_owned(), content)]),
    };
    let is_error = result.remove("isError").as_ref().is_some_and(is_true);
    let had_content = result.contains_key("content");
    let content = match result.remove("content") {
        Some(Value::Array(parts)) => parts,
        // Servers of the first revision wrote `toolResult`.
        None | Some(Value::Null) => match result.remove("toolResult") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(parts)) if parts.iter().all(|part| part.get("type").is_some()) => parts,
            Some(text @ Value::String(_)) => vec![text],
            Some(value) => {
                result.entry("structuredContent").or_insert(value);
                Vec::new()
            }
        },
        Some(part) => vec![part],
    };
    // A result of other members alone is the value that the server means.
    if content.is_empty() && !had_content && !result.contains_key("structuredContent") {
        let others: Map<String, Value> = result
            .iter()
            .filter(|(name, _)| !KNOWN_MEMBERS.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !others.is_empty() {
            result.insert("structuredContent".to_owned(), Value::Object(others));
        }
    }
    let blocks = content.into_iter().map(read_block).collect();
    let mut read = if is_error { CallToolResult::error(blocks) } else { CallToolResult::success(blocks) };
    read.structured_content = result.remove("structuredContent");
    read.meta = result.remove("_meta").and_then(|meta| serde_json::from_value(meta).ok());
    read
}

fn is_true(flag: &Value) -> bool {
    match flag {
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Value::String(text) => text.trim().eq_ignore_ascii_case("true"),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

fn read_block(part: Value) -> ContentBlock {
    if let Some(block) = read_strictly(&part) {
        return block;
    }
    match &part {
        Value::String(text) => return ContentBlock::text(text),
        Value::Object(members) => {
            let mut bare = members.clone();
            bare.retain(|name, _| !OPTIONAL_MEMBERS.contains(&name.as_str()));
            if let Some(block) = read_strictly(&Value::Object(bare.clone())).or_else(|| read_strictly(&complete(bare)?))
            {
                return block;
            }
            let inner = members.get("resource").and_then(|resource| resource.get("text")).and_then(Value::as_str);
            if let Some(text) = inner.filter(|_| members.get("type").is_some_and(|kind| kind == "resource")) {
                return ContentBlock::text(text);
            }
            let is_text = members.get("type").is_none_or(|kind| kind == "text");
            if let Some(text) = members.get("text").filter(|_| is_text) {
                return ContentBlock::text(text.as_str().map_or_else(|| text.to_string(), str::to_owned));
            }
        }
        _ => {}
    }
    let kind = part.get("type").and_then(Value::as_str);
    let of_kind = kind.map(|kind| format!(" of the type {}", quote(&kind.into()))).unwrap_or_default();
    ContentBlock::text(format!("[a malformed part{of_kind}: {}]", quote_at_most(&part, MAX_PART_CHARS)))
}

fn read_strictly(part: &Value) -> Option<ContentBlock> {
    serde_json::from_value(part.clone()).ok()
}

/// Adds a member to a part that lacks it, where the rest of the part says what it has to be.
fn complete(mut part: Map<String, Value>) -> Option<Value> {
    match part.get("type").and_then(Value::as_str)? {
        "resource_link" => {
            let uri = part.get("uri")?.clone();
            part.insert("name".to_owned(), uri);
        }
        "image" => {
            let data = part.get("data").and_then(Value::as_str)?;
            let (_, mime_type) = IMAGE_SIGNATURES.iter().find(|(signature, _)| data.starts_with(signature))?;
            part.insert("mimeType".to_owned(), (*mime_type).into());
        }
        _ => return None,
    }
    Some(Value::Object(part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(value: Value, expected: Value) {
        let mut found = serde_json::to_value(read_call_result(value)).unwrap();
        found.as_object_mut().unwrap().remove("resultType");
        assert_eq!(found, expected);
    }

    fn text_block(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    fn success(blocks: Value) -> Value {
        json!({"content": blocks, "isError": false})
    }

    #[test]
    fn keeps_what_can_be_read_and_describes_the_rest() {
        check(json!({}), success(json!([])));
        check(json!({"content": null, "isError": null}), success(json!([])));
        check(json!({"content": "just text"}), success(json!([text_block("just text")])));
        check(json!("just text"), success(json!([text_block("just text")])));
        check(json!({"content": text_block("one")}), success(json!([text_block("one")])));
        check(
            json!({"content": [{"text": "no type"}, {"type": "text", "text": 5}]}),
            success(json!([text_block("no type"), text_block("5")])),
        );
        let odd = json!({"type": "text", "text": "x", "annotations": {"audience": ["system"], "priority": "high"}});
        check(json!({"content": [odd]}), success(json!([text_block("x")])));
        let video = json!({"content": [{"type": "video", "url": "u"}, text_block("after")]});
        let described = r#"[a malformed part of the type "video": {"type":"video","url":"u"}]"#;
        check(video, success(json!([text_block(described), text_block("after")])));
        let link = json!({"content": [{"type": "resource_link", "uri": "file:///a"}]});
        check(link, success(json!([{"type": "resource_link", "uri": "file:///a", "name": "file:///a"}])));
        let image = json!({"type": "image", "data": "iVBORw0KGgo="});
        let typed = json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"});
        check(json!({"content": [image]}), success(json!([typed])));
        let nameless = json!({"content": [{"type": "resource", "resource": {"text": "x"}}]});
        check(nameless, success(json!([text_block("x")])));
        check(json!({"toolResult": "old"}), success(json!([text_block("old")])));
        check(json!({"toolResult": [text_block("old")]}), success(json!([text_block("old")])));
        let structured = json!({"content": [], "structuredContent": {"a": 1}, "isError": false});
        check(json!({"toolResult": {"a": 1}}), structured);
        check(
            json!({"text": "bare", "resultType": "x"}),
            json!({"content": [], "isError": false, "structuredContent": {"text": "bare"}}),
        );
        check(json!({"content": null, "rows": [1]}), success(json!([])));
        for flag in [json!(1), json!("True"), json!(true)] {
            check(json!({"isError": flag, "content": []}), json!({"content": [], "isError": true}));
        }
        for flag in [json!(0), json!("no"), json!({}), Value::Null] {
            check(json!({"isError": flag, "content": []}), success(json!([])));
        }
        let failed = json!({"isError": "true", "content": [{"type": "image"}], "structuredContent": {"code": 1}});
        let described = r#"[a malformed part of the type "image": {"type":"image"}]"#;
        check(failed, json!({"content": [text_block(described)], "isError": true, "structuredContent": {"code": 1}}));
    }
}
