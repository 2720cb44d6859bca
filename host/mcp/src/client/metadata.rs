//! Members of a server's messages that clients of a gateway get.

use fumehood_core::trace_context;
use rmcp::model::{JsonObject, MetaObject, RequestMetaObject};
use serde_json::{Map, Value};

/// Maximum size of the icons and metadata of a tool, in bytes of JSON.
pub(super) const MAX_TOOL_MEMBERS_BYTES: usize = 64 << 10;
/// Maximum size of the `data` of an error, in bytes of JSON.
pub(super) const MAX_ERROR_DATA_BYTES: usize = 16 << 10;
/// Maximum size of the metadata that a client sends with a call, in bytes of JSON.
const MAX_CLIENT_META_BYTES: usize = 16 << 10;

/// Keys of `_meta` that belong to one connection: progress tokens and trace contexts are those of the gateway.
const CONNECTION_KEYS: [&str; 4] = ["progressToken", "traceparent", "tracestate", "baggage"];
/// Prefixes of keys with a meaning between a client and its server, or of the gateway itself.
const RESERVED_PREFIXES: [&str; 3] = ["io.modelcontextprotocol/", "modelcontextprotocol.io/", "fumehood/"];
/// Keys of the metadata of MCP Apps, and the prefix of those of earlier drafts.
const UI_KEY: &str = "ui";
const UI_PREFIX: &str = "ui/";
/// Scheme of the resources of MCP Apps.
const UI_SCHEME: &str = "ui:";

/// Returns the metadata that are passed on, without those of one connection and those of MCP Apps; `None` if none are left.
pub(super) fn passed_metadata(mut meta: Map<String, Value>) -> Option<Value> {
    meta.retain(|key, _| is_passed(key));
    remove_ui_metadata(&mut meta);
    (!meta.is_empty()).then_some(Value::Object(meta))
}

/// Removes the metadata of MCP Apps: what they name is HTML that a client would run.
pub(super) fn remove_ui_metadata(meta: &mut Map<String, Value>) {
    meta.retain(|key, _| key != UI_KEY && !key.starts_with(UI_PREFIX));
}

/// Returns whether a URI is that of a resource of MCP Apps.
pub(super) fn is_ui_resource(uri: &str) -> bool {
    uri.get(..UI_SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(UI_SCHEME))
}

/// Returns the metadata of a client's call that its server gets. Those over 16 KiB are left out as a whole.
pub(crate) fn passed_client_metadata(meta: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut passed: Map<_, _> =
        meta.iter().filter(|(key, _)| is_passed(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    remove_ui_metadata(&mut passed);
    let is_small = || Value::Object(passed.clone()).to_string().len() <= MAX_CLIENT_META_BYTES;
    (!passed.is_empty() && is_small()).then_some(passed)
}

/// Returns `_meta` of a call: what its client sent, and the context of the current span, if there is one to pass on.
pub(super) fn outgoing_meta(client_meta: Option<&JsonObject>) -> RequestMetaObject {
    let mut meta = RequestMetaObject(MetaObject(client_meta.cloned().unwrap_or_default()));
    if let Some(context) = trace_context::outgoing() {
        meta.set_traceparent(context.traceparent());
        context.tracestate().into_iter().for_each(|state| meta.set_tracestate(state));
    }
    meta
}

fn is_passed(key: &str) -> bool {
    !CONNECTION_KEYS.contains(&key) && !RESERVED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn passes_on_what_is_not_of_one_connection() {
        let object = |value: Value| value.as_object().unwrap().clone();
        let meta = object(json!({
            "com.example/trace": {"a": 1}, "progressToken": 1, "traceparent": "00-", "fumehood/error": {},
            "io.modelcontextprotocol/related-task": {}, "ui": {"resourceUri": "ui://x"}, "ui/resourceUri": "ui://x",
        }));
        assert_eq!(passed_metadata(meta.clone()), Some(json!({"com.example/trace": {"a": 1}})));
        assert_eq!(passed_metadata(object(json!({"ui": {}}))), None);
        let sent = passed_client_metadata(&meta).unwrap();
        assert_eq!(sent.keys().collect::<Vec<_>>(), ["com.example/trace"]);
        let large = object(json!({"x": "y".repeat(MAX_CLIENT_META_BYTES)}));
        assert_eq!(passed_client_metadata(&large), None);
        assert!(is_ui_resource("UI://a") && !is_ui_resource("uix://a"));
    }
}
