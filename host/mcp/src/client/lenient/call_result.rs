//! Results of tools in other forms than the protocol's.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value};

use super::quote;

/// Members of a part that the host does not need. A part is read again without them.
const OPTIONAL_MEMBERS: [&str; 6] = ["annotations", "_meta", "icons", "size", "title", "description"];

/// Reads a result part by part. A part that cannot be read becomes a text that says so.
pub(crate) fn read_call_result(value: Value) -> CallToolResult {
    let mut result = match value {
        Value::Object(members) => members,
        // Neither has another meaning than that of the content.
        content => Map::from_iter([("content".to_owned(), content)]),
    };
    let is_error = result.remove("isError").is_some_and(|flag| flag == true || flag == "true");
    let content = match result.remove("content") {
        Some(Value::Array(parts)) => parts,
        None | Some(Value::Null) => Vec::new(),
        Some(part) => vec![part],
    };
    let blocks = content.into_iter().map(read_block).collect();
    let mut read = if is_error { CallToolResult::error(blocks) } else { CallToolResult::success(blocks) };
    read.structured_content = result.remove("structuredContent");
    read.meta = result.remove("_meta").and_then(|meta| serde_json::from_value(meta).ok());
    read
}

fn read_block(part: Value) -> ContentBlock {
    let read = |part: &Value| serde_json::from_value::<ContentBlock>(part.clone()).ok();
    if let Some(block) = read(&part) {
        return block;
    }
    match &part {
        Value::String(text) => return ContentBlock::text(text),
        Value::Object(members) => {
            let mut bare = members.clone();
            bare.retain(|name, _| !OPTIONAL_MEMBERS.contains(&name.as_str()));
            if let Some(block) = read(&Value::Object(bare)) {
                return block;
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
    ContentBlock::text(format!("[a part{of_kind} that cannot be read: {}]", quote(&part)))
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

    #[test]
    fn keeps_what_can_be_read_and_describes_the_rest() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let good = |blocks: Value| json!({"content": blocks, "isError": false});
        check(json!({}), good(json!([])));
        check(json!({"content": null, "isError": null}), good(json!([])));
        check(json!({"content": "just text"}), good(json!([text("just text")])));
        check(json!("just text"), good(json!([text("just text")])));
        check(json!({"content": text("one")}), good(json!([text("one")])));
        check(
            json!({"content": [{"text": "no type"}, {"type": "text", "text": 5}]}),
            good(json!([text("no type"), text("5")])),
        );
        let odd = json!({"type": "text", "text": "x", "annotations": {"audience": ["system"], "priority": "high"}});
        check(json!({"content": [odd]}), good(json!([text("x")])));
        let video = json!({"content": [{"type": "video", "url": "u"}, text("after")]});
        let described = r#"[a part of the type "video" that cannot be read: {"type":"video","url":"u"}]"#;
        check(video, good(json!([text(described), text("after")])));
        let failed = json!({"isError": "true", "content": [{"type": "image"}], "structuredContent": {"code": 1}});
        let described = r#"[a part of the type "image" that cannot be read: {"type":"image"}]"#;
        check(failed, json!({"content": [text(described)], "isError": true, "structuredContent": {"code": 1}}));
    }
}
