//! Resources of components, as components define them, and their validation.

use std::collections::HashMap;

use serde::Serialize;

#[cfg(feature = "wire")]
use crate::bounded_list;
use crate::text::untrusted::{PrintableText, Untrusted, expose_raw};
use crate::tool::definition::ToolDefinition;
use crate::tool::name::ToolName;

/// The name of the tool that stands for reading a resource. No tool of a component can have it.
pub const READ_RESOURCE: &str = "resources/read";
/// The scheme of pages, with its colon.
const PAGE_SCHEME: &str = "ui:";
/// The MIME type of pages.
pub const PAGE_MIME_TYPE: &str = "text/html;profile=mcp-app";
/// Maximum number of resources of one component.
pub const MAX_RESOURCES: usize = 64;
/// Maximum length of a URI, in bytes.
pub const MAX_URI_BYTES: usize = 1024;
/// Maximum length of a name, a title and a MIME type, in bytes.
const MAX_NAME_BYTES: usize = 256;
/// Maximum length of a description, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 4 << 10;
/// Maximum number of origins of one kind.
const MAX_ORIGINS: usize = 32;
/// Maximum length of an origin, in bytes.
const MAX_ORIGIN_BYTES: usize = 256;

/// A validated definition of one resource of a component. Its URI, MIME type and origins are visible ASCII.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResourceDefinition {
    /// The URI that identifies it.
    pub uri: String,
    /// The name, for programs.
    #[serde(serialize_with = "expose_raw")]
    pub name: Untrusted<String>,
    /// A short display name.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub title: Option<Untrusted<String>>,
    /// A description of what it is, and when it is worth reading.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub description: Option<Untrusted<String>>,
    /// The MIME type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The settings of a page of MCP Apps; `None` for other resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<PageDefinition>,
}

/// The settings of a page, with the origins that it asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PageDefinition {
    /// The tools whose results it shows.
    pub tools: Vec<ToolName>,
    /// The origins that it sends requests to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connect_domains: Vec<String>,
    /// The origins of its images, scripts, styles, fonts and media.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_domains: Vec<String>,
    /// The origins of the frames in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frame_domains: Vec<String>,
    /// The origins of its base URIs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub base_uri_domains: Vec<String>,
    /// True if the client should draw a border around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefers_border: Option<bool>,
}

/// Maximum number of elements of a list in a message. The host accepts fewer.
#[cfg(feature = "wire")]
pub const MAX_WIRE_ELEMENTS: usize = 1_024;

/// An unvalidated definition of one resource.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct RawResource {
    /// See [`ResourceDefinition::uri`].
    pub uri: String,
    /// See [`ResourceDefinition::name`].
    pub name: String,
    /// See [`ResourceDefinition::title`].
    pub title: Option<String>,
    /// See [`ResourceDefinition::description`].
    pub description: Option<String>,
    /// See [`ResourceDefinition::mime_type`].
    pub mime_type: Option<String>,
    /// See [`ResourceDefinition::page`].
    pub page: Option<RawPage>,
}

/// Unvalidated settings of a page.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct RawPage {
    /// See [`PageDefinition::tools`].
    #[cfg_attr(feature = "wire", serde(deserialize_with = "bounded_list::deserialize::<MAX_WIRE_ELEMENTS, _, _>"))]
    pub tools: Vec<String>,
    /// See [`PageDefinition::connect_domains`].
    #[cfg_attr(feature = "wire", serde(deserialize_with = "bounded_list::deserialize::<MAX_WIRE_ELEMENTS, _, _>"))]
    pub connect_domains: Vec<String>,
    /// See [`PageDefinition::resource_domains`].
    #[cfg_attr(feature = "wire", serde(deserialize_with = "bounded_list::deserialize::<MAX_WIRE_ELEMENTS, _, _>"))]
    pub resource_domains: Vec<String>,
    /// See [`PageDefinition::frame_domains`].
    #[cfg_attr(feature = "wire", serde(deserialize_with = "bounded_list::deserialize::<MAX_WIRE_ELEMENTS, _, _>"))]
    pub frame_domains: Vec<String>,
    /// See [`PageDefinition::base_uri_domains`].
    #[cfg_attr(feature = "wire", serde(deserialize_with = "bounded_list::deserialize::<MAX_WIRE_ELEMENTS, _, _>"))]
    pub base_uri_domains: Vec<String>,
    /// See [`PageDefinition::prefers_border`].
    pub prefers_border: Option<bool>,
}

/// The resources of a component that clients are offered, and what the operator allows its pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResources {
    /// The definitions. Without `page_origins`, there are no pages among them.
    pub definitions: Vec<ResourceDefinition>,
    /// The origins that its pages may reach; `None` if clients are not shown any.
    pub page_origins: Option<Vec<String>>,
}

/// Errors in the resources of a component.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// The component lists too many resources.
    #[error("the component lists {found} resources; at most {MAX_RESOURCES} are accepted")]
    TooMany {
        /// The number of resources.
        found: usize,
    },
    /// A text is no URI.
    #[error(
        "invalid URI `{0}` of a resource; expected a scheme, a colon and visible ASCII, at most {MAX_URI_BYTES} bytes \
         in total"
    )]
    Uri(PrintableText),
    /// Two resources have one URI.
    #[error("the component lists two resources with the URI `{0}`; change one of them")]
    SameUri(String),
    /// A text is empty, too long, or has characters that it may not have.
    #[error("the {what} of the resource `{uri}` {fault}")]
    Text {
        /// The resource.
        uri: String,
        /// The text: `name`, `title`, `description`, `MIME type`.
        what: &'static str,
        /// The fault: `is 300 bytes long; at most 256 are accepted`.
        fault: String,
    },
    /// A page has another scheme or MIME type than pages have, or another resource has those of a page.
    #[error(
        "the resource `{0}` is not a complete page: a page needs the scheme `ui`, the MIME type `{PAGE_MIME_TYPE}` \
         and settings of a page; other resources must have none of them"
    )]
    PartialPage(String),
    /// The settings of a page are not accepted.
    #[error("the page `{uri}` {fault}")]
    Page {
        /// The page.
        uri: String,
        /// The fault.
        fault: String,
    },
}

impl ResourceDefinition {
    /// Returns whether it is a page of MCP Apps.
    #[must_use]
    pub fn is_page(&self) -> bool {
        self.page.is_some()
    }

    /// Returns the number of characters in its texts that a reader would not see. See [`crate::text::sanitize`].
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        let texts = [Some(&self.name), self.title.as_ref(), self.description.as_ref()];
        texts.into_iter().flatten().map(Untrusted::<String>::hidden_chars).sum()
    }
}

/// Returns whether a URI is one of a page.
#[must_use]
pub fn is_page_uri(uri: &str) -> bool {
    uri.get(..PAGE_SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(PAGE_SCHEME))
}

/// Returns whether the text is a scheme, a colon and a rest of visible ASCII, at most [`MAX_URI_BYTES`] in all (RFC 3986,
/// section 3).
#[must_use]
pub fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
    let is_visible = text.bytes().all(|c| c.is_ascii_graphic());
    is_scheme && !rest.is_empty() && text.len() <= MAX_URI_BYTES && is_visible
}

impl RawResource {
    /// Checks the texts against their limits.
    ///
    /// # Errors
    /// If one of them is not accepted, or a page is one in part.
    pub fn parse(self) -> Result<ResourceDefinition, ResourceError> {
        let Self { uri, name, title, description, mime_type, page } = self;
        if !is_uri(&uri) {
            let shown: String = uri.chars().take(MAX_URI_BYTES).collect();
            return Err(ResourceError::Uri(shown.into()));
        }
        check_length(&uri, "name", &name, MAX_NAME_BYTES)?;
        if name.is_empty() {
            return Err(ResourceError::Text { uri, what: "name", fault: "is empty; give it one".to_owned() });
        }
        check_length(&uri, "title", title.as_deref().unwrap_or_default(), MAX_NAME_BYTES)?;
        check_length(&uri, "description", description.as_deref().unwrap_or_default(), MAX_DESCRIPTION_BYTES)?;
        if let Some(mime_type) = &mime_type {
            check_mime_type(&uri, mime_type)?;
        }
        let has_page_type = mime_type.as_deref().is_some_and(is_page_type);
        let is_page = page.is_some();
        if is_page != is_page_uri(&uri) || is_page != has_page_type {
            return Err(ResourceError::PartialPage(uri));
        }
        let page = page.map(|page| page.parse(&uri)).transpose()?;
        let [title, description] = [title, description].map(|text| text.map(Untrusted::new));
        Ok(ResourceDefinition { uri, name: name.into(), title, description, mime_type, page })
    }
}

impl RawPage {
    /// Checks that its lists fit in a message.
    ///
    /// # Errors
    /// If one has more than [`MAX_WIRE_ELEMENTS`] elements.
    #[cfg(feature = "wire")]
    pub fn check_lists(&self) -> Result<(), bounded_list::ListTooLong> {
        let lists =
            [&self.tools, &self.connect_domains, &self.resource_domains, &self.frame_domains, &self.base_uri_domains];
        match lists.into_iter().map(Vec::len).find(|found| *found > MAX_WIRE_ELEMENTS) {
            Some(found) => Err(bounded_list::ListTooLong { found, max: MAX_WIRE_ELEMENTS }),
            None => Ok(()),
        }
    }

    fn parse(self, uri: &str) -> Result<PageDefinition, ResourceError> {
        let Self { tools, connect_domains, resource_domains, frame_domains, base_uri_domains, prefers_border } = self;
        let wrong = |fault: String| ResourceError::Page { uri: uri.to_owned(), fault };
        for origins in [&connect_domains, &resource_domains, &frame_domains, &base_uri_domains] {
            if origins.len() > MAX_ORIGINS {
                let fault =
                    format!("asks for {} origins of one kind; at most {MAX_ORIGINS} are accepted", origins.len());
                return Err(wrong(fault));
            }
            if let Some(origin) = origins.iter().find(|origin| !is_origin(origin)) {
                let shown = PrintableText::from(origin.chars().take(MAX_ORIGIN_BYTES).collect::<String>());
                return Err(wrong(format!("asks for `{shown}`; expected an origin such as `https://api.example.com`")));
            }
        }
        let tools = tools.iter().map(|name| {
            ToolName::for_component(name).map_err(|_| {
                let shown = PrintableText::from(name.chars().take(MAX_NAME_BYTES).collect::<String>());
                wrong(format!("names `{shown}`, which is not a valid tool name"))
            })
        });
        let tools = tools.collect::<Result<_, _>>()?;
        Ok(PageDefinition { tools, connect_domains, resource_domains, frame_domains, base_uri_domains, prefers_border })
    }
}

/// Parses all resources of a component, and checks the rules that concern them together.
///
/// # Errors
/// If there are too many, one is not accepted, two have one URI, or a page names a tool that is not there or has a page.
pub fn parse_resources(
    raw: Vec<RawResource>,
    tools: &[ToolDefinition],
) -> Result<Vec<ResourceDefinition>, ResourceError> {
    if raw.len() > MAX_RESOURCES {
        return Err(ResourceError::TooMany { found: raw.len() });
    }
    let resources = raw.into_iter().map(RawResource::parse).collect::<Result<Vec<_>, _>>()?;
    let mut uris = HashMap::new();
    let mut shown = HashMap::new();
    for resource in &resources {
        if uris.insert(&resource.uri, ()).is_some() {
            return Err(ResourceError::SameUri(resource.uri.clone()));
        }
        for tool in resource.page.iter().flat_map(|page| &page.tools) {
            let wrong = |fault: String| Err(ResourceError::Page { uri: resource.uri.clone(), fault });
            if !tools.iter().any(|definition| definition.name == *tool) {
                return wrong(format!("is for the tool `{tool}`, which the component does not have"));
            }
            if let Some(other) = shown.insert(tool, &resource.uri) {
                return wrong(format!("is for the tool `{tool}`, and so is `{other}`; a tool has at most one page"));
            }
        }
    }
    Ok(resources)
}

fn check_length(uri: &str, what: &'static str, text: &str, limit: usize) -> Result<(), ResourceError> {
    if text.len() <= limit {
        return Ok(());
    }
    let fault = format!("is {} bytes long; at most {limit} are accepted", text.len());
    Err(ResourceError::Text { uri: uri.to_owned(), what, fault })
}

fn check_mime_type(uri: &str, text: &str) -> Result<(), ResourceError> {
    check_length(uri, "MIME type", text, MAX_NAME_BYTES)?;
    let is_visible = text.bytes().all(|c| c.is_ascii_graphic() || c == b' ');
    if is_visible && text.contains('/') {
        return Ok(());
    }
    let fault = "is invalid; expected one such as `text/markdown`".to_owned();
    Err(ResourceError::Text { uri: uri.to_owned(), what: "MIME type", fault })
}

/// Returns whether a MIME type is that of pages, with or without blanks.
#[must_use]
pub fn is_page_type(mime_type: &str) -> bool {
    let plain: String = mime_type.chars().filter(|c| !c.is_whitespace()).collect();
    plain.eq_ignore_ascii_case(PAGE_MIME_TYPE)
}

/// Returns whether a text is one origin, which cannot end a directive of a policy (CSP Level 3, section 2.3.1).
fn is_origin(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_ORIGIN_BYTES
        && text.bytes().all(|c| c.is_ascii_graphic() && !b";,'\"".contains(&c))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::definition::{DefinitionLimits, RawDefinition};

    fn resource(uri: &str) -> RawResource {
        RawResource { uri: uri.to_owned(), name: "r".to_owned(), ..RawResource::default() }
    }

    fn page(uri: &str, page: RawPage) -> RawResource {
        RawResource { mime_type: Some("text/html; profile=mcp-app".to_owned()), page: Some(page), ..resource(uri) }
    }

    fn for_tools(tools: &[&str]) -> RawPage {
        RawPage { tools: tools.iter().map(|tool| (*tool).to_owned()).collect(), ..RawPage::default() }
    }

    fn check(raw: Vec<RawResource>, expected: &str) {
        let tool = RawDefinition { name: "draw".to_owned(), input_schema: "{}".to_owned(), ..RawDefinition::default() };
        let tool = tool.parse(&DefinitionLimits::default()).unwrap();
        let found = match parse_resources(raw, &[tool]) {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn rejects_resources_over_their_limits() {
        fn numbered(count: usize) -> Vec<RawResource> {
            (0..count).map(|n| resource(&format!("a:{n}"))).collect::<Vec<_>>()
        }

        fn long(bytes: usize) -> String {
            "x".repeat(bytes)
        }

        check(numbered(64), "ok");
        check(numbered(65), "lists 65 resources; at most 64");
        check(vec![resource("a:b"), resource("a:b")], "two resources with the URI `a:b`");
        check(vec![resource(&format!("a:{}", "x".repeat(1022)))], "ok");
        for uri in ["", "a", "a:", ":b", "1:b", "a:b c", "a:\u{202e}", &format!("a:{}", "x".repeat(1023))] {
            check(vec![resource(uri)], "expected a scheme");
        }
        check(vec![RawResource { name: long(256), ..resource("a:b") }], "ok");
        check(vec![RawResource { name: long(257), ..resource("a:b") }], "the name of the resource `a:b` is 257 bytes");
        check(vec![RawResource { name: String::new(), ..resource("a:b") }], "is empty");
        check(vec![RawResource { title: Some(long(257)), ..resource("a:b") }], "the title");
        check(vec![RawResource { description: Some(long(4096)), ..resource("a:b") }], "ok");
        check(vec![RawResource { description: Some(long(4097)), ..resource("a:b") }], "the description");
        check(vec![RawResource { mime_type: Some("text\n/x".to_owned()), ..resource("a:b") }], "the MIME type");
    }

    #[test]
    fn a_page_is_one_as_a_whole() {
        fn asking(origins: Vec<String>) -> Vec<RawResource> {
            vec![page("ui://a", RawPage { frame_domains: origins, ..RawPage::default() })]
        }

        check(vec![page("ui://a/b", for_tools(&["draw"]))], "ok");
        check(vec![page("file:///a", RawPage::default())], "is not a complete page");
        check(vec![resource("UI://a")], "is not a complete page");
        let typed = RawResource { mime_type: Some(PAGE_MIME_TYPE.to_owned()), ..resource("a:b") };
        check(vec![typed], "is not a complete page");
        check(vec![RawResource { mime_type: None, ..page("ui://a", RawPage::default()) }], "is not a complete page");
        check(vec![page("ui://a", for_tools(&["other"]))], "which the component does not have");
        check(vec![page("ui://a", for_tools(&["Draw"]))], "not a valid tool name");
        check(vec![page("ui://a", for_tools(&["draw"])), page("ui://b", for_tools(&["draw"]))], "at most one page");
        check(asking(vec!["https://a.example".to_owned(); 32]), "ok");
        check(asking(vec!["https://a.example".to_owned(); 33]), "asks for 33 origins");
        check(asking(vec!["https://a.example; script-src *".to_owned()]), "expected an origin");
        check(asking(vec![format!("https://{}", "a".repeat(249))]), "expected an origin");
    }

    #[test]
    fn what_is_pinned_has_all_texts() {
        let defined = page("ui://a", for_tools(&["draw"])).parse().unwrap();
        let expected = json!({"uri": "ui://a", "name": "r", "mime_type": "text/html; profile=mcp-app", "page": {"tools": ["draw"]}});
        assert_eq!(serde_json::to_value(&defined).unwrap(), expected);
        assert_eq!(RawResource { name: "a\u{200b}".to_owned(), ..resource("a:b") }.parse().unwrap().hidden_chars(), 1);
    }
}
