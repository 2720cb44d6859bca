//! MCP Apps (SEP-1865): pages of servers that clients show, and what is passed on of them.

use rmcp::model::{ClientCapabilities, JsonObject, MetaObject};
use serde_json::{Map, Value, json};

/// The name of the extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The MIME type of a page.
const MIME_TYPE: &str = "text/html;profile=mcp-app";
/// The member of `_meta` that the extension defines.
pub(crate) const META_KEY: &str = "ui";
/// The same of drafts of the extension.
const DRAFT_META_KEY: &str = "ui/resourceUri";
/// The lists of origins that a page may reach.
const ORIGIN_LISTS: [&str; 4] = ["connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"];

/// Returns the capability of a client that shows pages.
pub(crate) fn capability() -> JsonObject {
    JsonObject::from_iter([("mimeTypes".to_owned(), json!([MIME_TYPE]))])
}

/// Returns whether a client declares that it shows pages.
pub(crate) fn are_supported(capabilities: &ClientCapabilities) -> bool {
    let declared = capabilities.extensions.as_ref().and_then(|extensions| extensions.get(EXTENSION));
    let types = declared.and_then(|declared| declared.get("mimeTypes")).and_then(Value::as_array);
    types.is_some_and(|types| types.iter().filter_map(Value::as_str).any(is_app_type))
}

/// Returns whether a URI is one of a page.
pub(crate) fn is_app_uri(uri: &str) -> bool {
    uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("ui://"))
}

fn is_app_type(mime_type: &str) -> bool {
    let plain: String = mime_type.chars().filter(|c| !c.is_whitespace()).collect();
    plain.eq_ignore_ascii_case(MIME_TYPE)
}

/// Removes what belongs to the extension from the `_meta` of an object.
pub(crate) fn remove(object: &mut Map<String, Value>) {
    let Some(Value::Object(meta)) = object.get_mut("_meta") else { return };
    meta.remove(META_KEY);
    meta.remove(DRAFT_META_KEY);
    if meta.is_empty() {
        object.remove("_meta");
    }
}

/// Removes what belongs to the extension from `_meta` of a tool.
pub(crate) fn remove_from_meta(meta: &mut Option<MetaObject>) {
    if let Some(members) = meta {
        members.0.remove(META_KEY);
    }
    meta.take_if(|members| members.0.is_empty());
}

/// Restricts the `_meta.ui` of a page to the origins that the operator allows. A list without allowed origins is empty, so
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

    #[test]
    fn a_client_declares_the_type_of_pages() {
        let check = |declared: Value, expected: bool| {
            let capabilities = serde_json::from_value(json!({"extensions": {EXTENSION: declared}})).unwrap();
            assert_eq!(are_supported(&capabilities), expected, "{capabilities:?}");
        };
        check(json!({"mimeTypes": ["text/html;profile=mcp-app"]}), true);
        check(json!({"mimeTypes": ["text/plain", "text/html; profile=mcp-app"]}), true);
        check(json!({"mimeTypes": ["text/html"]}), false);
        check(json!({}), false);
        assert!(!are_supported(&ClientCapabilities::default()));
        assert!(is_app_uri("UI://chart/x") && !is_app_uri("file:///ui://"));
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
