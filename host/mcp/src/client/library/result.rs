//! Results of requests to a library, in the form of the protocol.

use rmcp::model::{CustomResult, ServerResult};
use serde_json::{Map, Value, json};

use crate::apps;
use crate::client::lenient;

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
    normal.extend(result.remove_entry("_meta").filter(|(_, meta)| meta.is_object()));
    Some(Value::Object(normal))
}

fn normalize_part(part: Value, uri: &str, app_origins: Option<&[String]>) -> Value {
    let Value::Object(mut part) = part else {
        return json!({"uri": uri, "text": "[a part of this resource cannot be read]"});
    };
    if !part.get("uri").is_some_and(Value::is_string) {
        part.insert("uri".to_owned(), uri.into());
    }
    if !part.get("mimeType").is_none_or(Value::is_string) {
        part.remove("mimeType");
    }
    if !part.get("_meta").is_none_or(Value::is_object) {
        part.remove("_meta");
    }
    if !["text", "blob"].iter().any(|member| part.get(*member).is_some_and(Value::is_string)) {
        part.insert("text".to_owned(), "[a part of this resource has neither a text nor bytes]".into());
    }
    match app_origins {
        Some(origins) => apps::restrict(&mut part, origins),
        None => apps::remove(&mut part),
    }
    Value::Object(part)
}

/// Returns the messages of a prompt, each with a role and a content that can be read.
pub(super) fn normalize_messages(mut result: Map<String, Value>) -> Option<Value> {
    let Value::Array(messages) = result.remove("messages")? else { return None };
    let normalize = |message: Value| {
        let role = if message.get("role") == Some(&json!("assistant")) { "assistant" } else { "user" };
        let content = message.get("content").cloned().unwrap_or(message);
        let read = lenient::read_call_result(json!({ "content": content }));
        read.content.into_iter().map(move |content| json!({"role": role, "content": content}))
    };
    let messages: Vec<Value> = messages.into_iter().flat_map(normalize).collect();
    let mut normal = Map::from_iter([("messages".to_owned(), Value::Array(messages))]);
    normal.extend(result.remove_entry("description").filter(|(_, text)| text.is_string()));
    normal.extend(result.remove_entry("_meta").filter(|(_, meta)| meta.is_object()));
    Some(Value::Object(normal))
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
        assert!(read["contents"][3]["text"].as_str().unwrap().contains("cannot be read"), "{read}");
        assert_eq!(normalize_read(object(json!({"contents": 5})), "a://b", None), None);
    }

    #[test]
    fn messages_of_unknown_content_are_described() {
        let text = json!({"role": "assistant", "content": {"type": "text", "text": "hi"}});
        let odd = json!({"role": "user", "content": {"type": "video"}});
        let read = normalize_messages(object(json!({"messages": [text, odd], "description": 5}))).unwrap();
        assert_eq!((&read["messages"][0], read.get("description")), (&text, None));
        assert!(read["messages"][1]["content"]["text"].as_str().unwrap().contains("video"), "{read}");
    }
}
