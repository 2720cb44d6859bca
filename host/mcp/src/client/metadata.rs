//! Members of a server's messages that clients of a gateway get.

use fumehood_core::trace_context;
use rmcp::model::{JsonObject, MetaObject, RequestMetaObject};
use serde_json::{Map, Value, json};

use crate::apps;

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
/// Schemes of icons that clients may load (MCP specification, "Icons").
const ICON_SCHEMES: [&str; 3] = ["https:", "http:", "data:image/"];

/// Returns the metadata that are passed on, without those of one connection and those of MCP Apps; `None` if none are left.
pub(super) fn passed_metadata(mut meta: Map<String, Value>) -> Option<Value> {
    meta.retain(|key, _| is_passed(key));
    (!meta.is_empty()).then_some(Value::Object(meta))
}

/// Leaves in the `_meta` of an object what is passed on. Its page is passed on only with `app_origins`, which are those that
/// it may reach.
pub(super) fn retain_passed_metadata(object: &mut Map<String, Value>, app_origins: Option<&[String]>) {
    let Some(Value::Object(mut meta)) = object.remove("_meta") else { return };
    let page = meta.remove(apps::META_KEY).filter(|page| app_origins.is_some() && page.is_object());
    let mut passed = passed_metadata(meta);
    if let Some(page) = page
        && let Some(meta) = passed.get_or_insert_with(|| json!({})).as_object_mut()
    {
        meta.insert(apps::META_KEY.to_owned(), page);
    }
    object.extend(passed.map(|meta| ("_meta".to_owned(), meta)));
    apps::restrict(object, app_origins.unwrap_or_default());
}

/// Leaves those of an object's icons that clients may load.
pub(super) fn retain_safe_icons(object: &mut Map<String, Value>) {
    let Some(icons) = object.get_mut("icons") else { return };
    match icons.as_array_mut() {
        Some(icons) => icons.retain(|icon| icon.get("src").and_then(Value::as_str).is_some_and(is_safe_icon)),
        None => *icons = json!([]),
    }
    if icons.as_array().is_some_and(Vec::is_empty) {
        object.remove("icons");
    }
}

/// Returns whether clients may load an icon from here.
pub(super) fn is_safe_icon(src: &str) -> bool {
    ICON_SCHEMES.iter().any(|scheme| src.starts_with(scheme))
}

/// Returns the metadata of a client's call that its server gets. Those over 16 KiB are left out as a whole.
pub(crate) fn passed_client_metadata(meta: &Map<String, Value>) -> Option<Map<String, Value>> {
    let passed: Map<_, _> =
        meta.iter().filter(|(key, _)| is_passed(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    if passed.is_empty() || Value::Object(passed.clone()).to_string().len() > MAX_CLIENT_META_BYTES {
        return None;
    }
    Some(passed)
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
    let is_reserved = CONNECTION_KEYS.contains(&key) || RESERVED_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    // What the metadata of MCP Apps name is HTML that a client would run.
    !is_reserved && !apps::is_app_key(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn passes_on_what_is_not_of_one_connection() {
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
    }

    fn filter_members(server: &Value, origins: Option<&[String]>) -> Value {
        let mut object = server.as_object().unwrap().clone();
        retain_passed_metadata(&mut object, origins);
        retain_safe_icons(&mut object);
        Value::Object(object)
    }

    #[test]
    fn no_member_of_an_object_passes_by_itself() {
        let server = json!({
            "_meta": {"k": 1, "fumehood/sanitized": 0, "ui": {"permissions": {}, "domain": "d"}, "ui/resourceUri": "x"},
            "icons": [{"src": "javascript:x"}, {"src": "https://example.com/i.png"}],
        });
        let icons = json!([{"src": "https://example.com/i.png"}]);
        assert_eq!(filter_members(&server, None), json!({"_meta": {"k": 1}, "icons": icons}));
        assert_eq!(
            filter_members(&server, Some(&[])),
            json!({"_meta": {"k": 1, "ui": {"domain": "d"}}, "icons": icons})
        );
        let mut odd = json!({"_meta": 5, "icons": "x"}).as_object().unwrap().clone();
        retain_passed_metadata(&mut odd, None);
        retain_safe_icons(&mut odd);
        assert!(odd.is_empty(), "{odd:?}");
    }
}
