//! MCP Apps (SEP-1865): pages of servers that clients show, and what is passed on of them.

use fumehood_core::tool::resource::{PAGE_MIME_TYPE, is_page_type, is_page_uri};
use rmcp::model::{ClientCapabilities, JsonObject, MetaObject};
use serde_json::{Map, Value, json};

pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The member of `_meta` that the extension defines.
pub(crate) const META_KEY: &str = "ui";
/// The member of a tool's `_meta.ui` with the URI of its page.
const PAGE_URI_KEY: &str = "resourceUri";
/// The prefix of members of drafts of the extension.
const DRAFT_META_PREFIX: &str = "ui/";
/// The type of a page where it is not shown.
const PLAIN_TYPE: &str = "text/html";
/// The lists of origins that a page may reach.
const ORIGIN_LISTS: [&str; 4] = ["connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"];

/// Returns the capability of a client that shows pages.
pub(crate) fn capability() -> JsonObject {
    JsonObject::from_iter([("mimeTypes".to_owned(), json!([PAGE_MIME_TYPE]))])
}

/// Returns whether a client declares that it shows pages.
pub(crate) fn are_supported(capabilities: &ClientCapabilities) -> bool {
    let declared = capabilities.extensions.as_ref().and_then(|extensions| extensions.get(EXTENSION));
    let types = declared.and_then(|declared| declared.get("mimeTypes")).and_then(Value::as_array);
    types.is_some_and(|types| types.iter().filter_map(Value::as_str).any(is_page_type))
}

/// Returns whether a URI is one of a page.
pub(crate) fn is_app_uri(uri: &str) -> bool {
    is_page_uri(uri)
}

/// Returns whether a member of `_meta` belongs to the extension.
pub(crate) fn is_app_key(key: &str) -> bool {
    key == META_KEY || key.starts_with(DRAFT_META_PREFIX)
}

/// Returns whether a server lets only its own pages call a tool: its `visibility` is a list without `model`.
pub(crate) fn is_only_for_pages(meta: Option<&MetaObject>) -> bool {
    let page = meta.and_then(|meta| meta.0.get(META_KEY));
    let visibility = page.and_then(|page| page.get("visibility")).and_then(Value::as_array);
    visibility.is_some_and(|audiences| !audiences.iter().any(|audience| audience == "model"))
}

/// Removes what belongs to the extension from the `_meta` of an object.
pub(crate) fn remove(object: &mut Map<String, Value>) {
    let Some(Value::Object(meta)) = object.get_mut("_meta") else { return };
    meta.retain(|key, _| !is_app_key(key));
    if meta.is_empty() {
        object.remove("_meta");
    }
}

/// Like [`remove`], for the `_meta` of a tool.
pub(crate) fn remove_from_meta(meta: &mut Option<MetaObject>) {
    if let Some(members) = meta {
        members.0.retain(|key, _| !is_app_key(key));
    }
    meta.take_if(|members| members.0.is_empty());
}

/// Returns the URI of the page that the `_meta` of a tool names.
pub(crate) fn page_uri(meta: Option<&MetaObject>) -> Option<&str> {
    meta?.0.get(META_KEY)?.get(PAGE_URI_KEY)?.as_str()
}

/// Names the page of a tool in its `_meta`.
pub(crate) fn set_page_uri(meta: &mut Option<MetaObject>, uri: &str) {
    meta.get_or_insert_with(MetaObject::new).0.insert(META_KEY.to_owned(), json!({ PAGE_URI_KEY: uri }));
}

/// Makes a part of a resource one that no client shows as a page: it gets this URI if its own is one of a page.
pub(crate) fn remove_from_contents(part: &mut Map<String, Value>, uri: &str) {
    remove(part);
    if part.get("uri").and_then(Value::as_str).is_some_and(is_app_uri) {
        part.insert("uri".to_owned(), uri.into());
    }
    if part.get("mimeType").and_then(Value::as_str).is_some_and(is_page_type) {
        part.insert("mimeType".to_owned(), PLAIN_TYPE.into());
    }
}

/// Makes the content of a message one that no client shows as a page: without the URI of a page, its text is left.
pub(crate) fn remove_from_content(content: &mut Map<String, Value>) {
    remove(content);
    let is_link = is_page(content);
    let text = match content.get_mut("resource") {
        Some(Value::Object(resource)) if is_page(resource) => resource.remove("text"),
        Some(Value::Object(resource)) => return remove(resource),
        _ if is_link => None,
        _ => return,
    };
    let text = text.filter(Value::is_string).unwrap_or_else(|| "[a page, which is not shown here]".into());
    *content = Map::from_iter([("type".to_owned(), "text".into()), ("text".to_owned(), text)]);
}

fn is_page(object: &Map<String, Value>) -> bool {
    object.get("uri").and_then(Value::as_str).is_some_and(is_app_uri)
}

/// Restricts the `_meta.ui` of an object to the origins that the operator allows. A list without allowed origins is empty, so
/// that the client's own default, which denies all, holds. Devices such as the camera are never passed on.
pub(crate) fn restrict(object: &mut Map<String, Value>, allowed: &[String]) {
    let ui = object.get_mut("_meta").and_then(|meta| meta.get_mut(META_KEY)).and_then(Value::as_object_mut);
    let Some(ui) = ui else { return };
    ui.remove("permissions");
    let Some(Value::Object(csp)) = ui.get_mut("csp") else {
        ui.remove("csp");
        return;
    };
    csp.retain(|list, _| ORIGIN_LISTS.contains(&list.as_str()));
    for origins in csp.values_mut() {
        match origins {
            Value::Array(origins) => {
                origins.retain(|origin| origin.as_str().is_some_and(|origin| is_allowed(origin, allowed)));
            }
            _ => *origins = json!([]),
        }
    }
}

fn is_allowed(origin: &str, allowed: &[String]) -> bool {
    let is_origin = origin.bytes().all(|c| c.is_ascii_graphic() && !b";,'\"".contains(&c));
    is_origin && allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_support(declared: Value, expected: bool) {
        let capabilities = serde_json::from_value(json!({"extensions": {EXTENSION: declared}})).unwrap();
        assert_eq!(are_supported(&capabilities), expected, "{capabilities:?}");
    }

    #[test]
    fn a_client_declares_the_type_of_pages() {
        check_support(json!({"mimeTypes": ["text/html;profile=mcp-app"]}), true);
        check_support(json!({"mimeTypes": ["text/plain", "text/html; profile=mcp-app"]}), true);
        check_support(json!({"mimeTypes": ["text/html"]}), false);
        check_support(json!({}), false);
        assert!(!are_supported(&ClientCapabilities::default()));
        assert!(
            is_app_uri("UI://chart/x") && is_app_uri("ui:x") && !is_app_uri("file:///ui://") && !is_app_uri("uix:a")
        );
    }

    fn check_visibility(ui: Value, expected: bool) {
        let meta = MetaObject(JsonObject::from_iter([(META_KEY.to_owned(), ui)]));
        assert_eq!(is_only_for_pages(Some(&meta)), expected, "{meta:?}");
    }

    #[test]
    fn a_tool_for_pages_has_a_visibility_without_models() {
        check_visibility(json!({"visibility": ["app"]}), true);
        check_visibility(json!({"visibility": []}), true);
        check_visibility(json!({"visibility": ["model", "app"]}), false);
        check_visibility(json!({"visibility": "app"}), false);
        check_visibility(json!({"resourceUri": "ui://a/b"}), false);
        assert!(!is_only_for_pages(None));
    }

    fn to_object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn nothing_of_a_page_is_left_where_none_is_shown() {
        let page =
            json!({"uri": "ui:x", "mimeType": "text/html; profile=mcp-app", "text": "<p>", "_meta": {"ui/x": 1}});
        let mut part = to_object(page.clone());
        remove_from_contents(&mut part, "note://b");
        assert_eq!(Value::Object(part), json!({"uri": "note://b", "mimeType": "text/html", "text": "<p>"}));
        for (content, expected) in [
            (json!({"type": "resource", "resource": page}), json!({"type": "text", "text": "<p>"})),
            (
                json!({"type": "resource_link", "uri": "UI://x", "name": "x"}),
                json!({"type": "text", "text": "[a page, which is not shown here]"}),
            ),
            (
                json!({"type": "resource", "resource": {"uri": "a://b", "text": "x", "_meta": {"ui": {}}}}),
                json!({"type": "resource", "resource": {"uri": "a://b", "text": "x"}}),
            ),
        ] {
            let mut content = to_object(content);
            remove_from_content(&mut content);
            assert_eq!(Value::Object(content), expected);
        }
    }

    #[test]
    fn a_page_reaches_only_origins_that_the_operator_allows() {
        let page = json!({"_meta": {"other": 1, "ui": {
            "csp": {
                "connectDomains": ["https://api.example.com", "https://evil.example", "https://a; script-src *", 5],
                "resourceDomains": "*",
                "scriptSrc": ["*"]
            },
            "permissions": {"camera": {}},
            "prefersBorder": true
        }}});
        let Value::Object(mut page) = page else { panic!() };
        restrict(&mut page, &["https://api.example.com".to_owned()]);
        let expected = json!({"other": 1, "ui": {
            "csp": {"connectDomains": ["https://api.example.com"], "resourceDomains": []}, "prefersBorder": true
        }});
        assert_eq!(page["_meta"], expected);
        remove(&mut page);
        assert_eq!(page["_meta"], json!({"other": 1}));
    }
}
