//! Results of requests to a library, in the form of the protocol.

use rmcp::model::{CustomResult, ServerResult};
use serde_json::{Map, Value, json};

use crate::apps;
use crate::client::lenient;
use crate::client::metadata::{retain_passed_metadata, retain_safe_icons};

/// Returns a result as the server wrote it.
pub(super) fn to_value(result: ServerResult) -> Value {
    match result {
        ServerResult::CustomResult(CustomResult(value)) => value,
        typed => serde_json::to_value(typed).unwrap_or_default(),
    }
}

/// Returns the contents of a resource, part by part. Without `app_origins`, nothing of MCP Apps is left in them.
pub(super) fn normalize_read(
    mut result: Map<String, Value>,
    uri: &str,
    app_origins: Option<&[String]>,
) -> Option<Value> {
    let parts = match result.remove("contents")? {
        Value::Array(parts) => parts,
        part @ Value::Object(_) => vec![part],
        _ => return None,
    };
    let contents: Vec<Value> = parts.into_iter().map(|part| normalize_part(part, uri, app_origins)).collect();
    let mut normal = Map::from_iter([("contents".to_owned(), Value::Array(contents))]);
    add_metadata(&mut normal, result);
    Some(Value::Object(normal))
}

fn normalize_part(part: Value, uri: &str, app_origins: Option<&[String]>) -> Value {
    let Value::Object(mut part) = part else {
        return json!({"uri": uri, "text": "[a malformed part of this resource]"});
    };
    if !part.get("uri").is_some_and(Value::is_string) {
        part.insert("uri".to_owned(), uri.into());
    }
    if !part.get("mimeType").is_none_or(Value::is_string) {
        part.remove("mimeType");
    }
    if !["text", "blob"].iter().any(|member| part.get(*member).is_some_and(Value::is_string)) {
        part.insert("text".to_owned(), "[a part of this resource has neither a text nor bytes]".into());
    }
    retain_passed_metadata(&mut part, app_origins);
    if app_origins.is_none() {
        apps::remove_from_contents(&mut part, uri);
    }
    Value::Object(part)
}

/// Adds the metadata of a result that are passed on.
fn add_metadata(normal: &mut Map<String, Value>, mut result: Map<String, Value>) {
    retain_passed_metadata(&mut result, None);
    normal.extend(result.remove_entry("_meta"));
}

/// Returns the messages of a prompt, each with a role and a content that can be read. Without `app_origins`, nothing of MCP
/// Apps is left in them.
pub(super) fn normalize_messages(mut result: Map<String, Value>, app_origins: Option<&[String]>) -> Option<Value> {
    let Value::Array(messages) = result.remove("messages")? else { return None };
    let normalize = |message: Value| {
        let role = if message.get("role") == Some(&json!("assistant")) { "assistant" } else { "user" };
        let content = message.get("content").cloned().unwrap_or(message);
        let read = lenient::read_call_result(json!({ "content": content }));
        let passed = move |content| json!({"role": role, "content": passed_content(json!(content), app_origins)});
        read.content.into_iter().map(passed)
    };
    let messages: Vec<Value> = messages.into_iter().flat_map(normalize).collect();
    let mut normal = Map::from_iter([("messages".to_owned(), Value::Array(messages))]);
    normal.extend(result.remove_entry("description").filter(|(_, text)| text.is_string()));
    add_metadata(&mut normal, result);
    Some(Value::Object(normal))
}

/// Returns what is passed on of the content of a message.
fn passed_content(mut content: Value, app_origins: Option<&[String]>) -> Value {
    let Value::Object(members) = &mut content else { return content };
    retain_passed_metadata(members, app_origins);
    retain_safe_icons(members);
    if let Some(Value::Object(resource)) = members.get_mut("resource") {
        retain_passed_metadata(resource, app_origins);
    }
    if app_origins.is_none() {
        apps::remove_from_content(members);
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn contents_are_read_part_by_part() {
        let good = json!({"uri": "a://b", "mimeType": "text/plain", "text": "x", "_meta": {"k": 1}});
        let result = object(
            json!({"contents": [good, {"blob": "AA==", "mimeType": 5}, {"uri": "a://c"}, null], "_meta": {"m": 1}}),
        );
        let read = normalize_read(result, "a://b", None).unwrap();
        assert_eq!((&read["contents"][0], &read["_meta"]), (&good, &json!({"m": 1})));
        assert_eq!(read["contents"][1], json!({"uri": "a://b", "blob": "AA=="}));
        assert!(read["contents"][2]["text"].as_str().unwrap().contains("neither"), "{read}");
        assert!(read["contents"][3]["text"].as_str().unwrap().contains("a malformed part"), "{read}");
        assert_eq!(normalize_read(object(json!({"contents": 5})), "a://b", None), None);
    }

    #[test]
    fn messages_of_unknown_content_are_described() {
        let text = json!({"role": "assistant", "content": {"type": "text", "text": "hi"}});
        let odd = json!({"role": "user", "content": {"type": "video"}});
        let read = normalize_messages(object(json!({"messages": [text, odd], "description": 5})), None).unwrap();
        assert_eq!((&read["messages"][0], read.get("description")), (&text, None));
        assert!(read["messages"][1]["content"]["text"].as_str().unwrap().contains("video"), "{read}");
    }

    #[test]
    fn nothing_is_forged_and_no_page_is_smuggled_in() {
        let meta = json!({"k": 1, "fumehood/sanitized": 0, "ui/resourceUri": "ui://x"});
        let page = json!({"uri": "ui://x", "text": "<p>", "_meta": {"ui": {}}});
        let read = object(json!({"contents": [page], "_meta": meta}));
        let expected = json!({"contents": [{"uri": "note://b", "text": "<p>"}], "_meta": {"k": 1}});
        assert_eq!(normalize_read(read, "note://b", None), Some(expected));
        let embedded = json!({"type": "resource", "resource": page, "_meta": meta});
        let messages = object(json!({"messages": [{"role": "user", "content": embedded}], "_meta": meta}));
        let message = json!({"role": "user", "content": {"type": "text", "text": "<p>"}});
        let without = normalize_messages(messages.clone(), None);
        assert_eq!(without, Some(json!({"messages": [message], "_meta": {"k": 1}})));
        let with = normalize_messages(messages, Some(&[])).unwrap();
        assert_eq!(with["messages"][0]["content"]["_meta"], json!({"k": 1}));
        assert_eq!(with["messages"][0]["content"]["resource"], page);
    }
}
