//! Answers to `initialize` that are not quite the protocol's.

use rmcp::model::ServerCapabilities;
use serde_json::{Map, Value, json};

/// Maximum size of a message that may be the answer to `initialize`, in bytes.
const MAX_HANDSHAKE_BYTES: usize = 256 << 10;
/// The members that only this answer has.
const VERSION: &str = "protocolVersion";
const SERVER_INFO: &str = "serverInfo";
/// The revision of a server that names none (MCP specification 2025-06-18, "Protocol Version Header").
const DEFAULT_VERSION: &str = "2025-03-26";

/// Returns whether a message may be an answer to `initialize`. Such a message is always normalized: in other forms it would be
/// taken for the result of an unknown method.
pub(crate) fn is_handshake(message: &[u8]) -> bool {
    message.len() <= MAX_HANDSHAKE_BYTES
        && std::str::from_utf8(message).is_ok_and(|text| text.contains(VERSION) || text.contains(SERVER_INFO))
}

/// Mends the result of `initialize`: what is missing in `serverInfo` is filled in, and capabilities, instructions and metadata of
/// the wrong type are left out. Other results stay as they are.
pub(super) fn mend_handshake(result: &mut Value) {
    let Value::Object(members) = result else { return };
    if !members.contains_key(VERSION) && !members.contains_key(SERVER_INFO) {
        return;
    }
    let version = members.get(VERSION).and_then(Value::as_str).filter(|version| !version.is_empty());
    let version = version.unwrap_or(DEFAULT_VERSION).to_owned();
    members.insert(VERSION.to_owned(), version.into());
    let mut info = match members.remove(SERVER_INFO) {
        Some(Value::Object(info)) => info,
        _ => Map::new(),
    };
    for (name, missing) in [("name", "unknown"), ("version", "")] {
        let text = match info.remove(name) {
            Some(Value::String(text)) => text,
            Some(Value::Number(number)) => number.to_string(),
            _ => missing.to_owned(),
        };
        info.insert(name.to_owned(), text.into());
    }
    info.retain(|name, value| matches!(name.as_str(), "icons") || value.is_string());
    members.insert(SERVER_INFO.to_owned(), Value::Object(info));
    let capabilities = match members.remove("capabilities") {
        Some(Value::Object(capabilities)) => {
            let mended = capabilities.into_iter().filter_map(|(name, value)| {
                let value = mend_capability(&name, value)?;
                Some((name, value))
            });
            mended.collect()
        }
        _ => Map::new(),
    };
    members.insert("capabilities".to_owned(), Value::Object(capabilities));
    members.retain(|name, value| match name.as_str() {
        "instructions" => value.is_string(),
        "_meta" => value.is_object(),
        _ => true,
    });
}

/// Returns a capability that can be read. `true` is one without details.
fn mend_capability(name: &str, value: Value) -> Option<Value> {
    match value {
        Value::Bool(true) => Some(json!({})),
        Value::Object(_) if serde_json::from_value::<ServerCapabilities>(json!({ name: &value })).is_ok() => {
            Some(value)
        }
        // Its details have another type than those of the protocol.
        Value::Object(_) => Some(json!({})),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::InitializeResult;

    use super::*;

    #[test]
    fn any_answer_with_a_version_can_be_read() {
        let info = json!({"name": "x", "version": "1"});
        for (odd, name) in [
            (json!({"serverInfo": {"name": "x"}, "capabilities": {"tools": true}}), "x"),
            (json!({"serverInfo": {"name": "x", "version": 2}, "capabilities": null}), "x"),
            (
                json!({"serverInfo": "x", "capabilities": {"tools": {"listChanged": "yes"}, "prompts": false}}),
                "unknown",
            ),
            (json!({"serverInfo": info, "capabilities": [], "instructions": 5, "_meta": "m"}), "x"),
            (json!({"serverInfo": {"name": "x", "title": 1, "websiteUrl": null}}), "x"),
        ] {
            let mut result = odd.clone();
            result["protocolVersion"] = "2025-11-25".into();
            mend_handshake(&mut result);
            let read: InitializeResult =
                serde_json::from_value(result).unwrap_or_else(|error| panic!("{error}: {odd}"));
            assert_eq!(read.server_info.name, name, "{odd}");
        }
        for odd in [json!({"protocolVersion": 20250618}), json!({"protocolVersion": ""}), json!({"serverInfo": info})] {
            let mut result = odd.clone();
            mend_handshake(&mut result);
            assert_eq!(result["protocolVersion"], DEFAULT_VERSION, "{odd}");
        }
        let mut other = json!({"server": 5});
        mend_handshake(&mut other);
        assert_eq!(other, json!({"server": 5}));
        assert!(
            is_handshake(br#"{"result":{"protocolVersion":""}}"#)
                && is_handshake(br#"{"serverInfo":{}}"#)
                && !is_handshake(b"{}")
        );
    }
}
