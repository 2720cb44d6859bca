//! Resources of components, as clients see them, computed once for each change of the set of tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fumehood_core::tool::resource::{PageDefinition, ResourceDefinition};
use fumehood_core::tool::{Tool, ToolProvider};
use serde_json::{Map, Value, json};

use super::library::Library;
use super::sanitizer::Sanitizer;
use crate::apps;
use crate::client::LibraryMethod;

/// The resources of components, by their URIs. Of two with one URI, that of the operator comes first, and then that of the
/// component whose name comes first; others are left out.
#[derive(Debug, Default)]
pub(crate) struct ComponentLibrary {
    resources: BTreeMap<String, ComponentResource>,
}

#[derive(Debug, Clone)]
pub(crate) struct ComponentResource {
    /// The tool that stands for reading it.
    reader: Arc<Tool>,
    /// The tools that it is the page of, by the names of the component.
    page: Option<PageDefinition>,
    /// The definition in the form of the protocol, sanitized.
    definition: Map<String, Value>,
}

impl ComponentLibrary {
    /// Collects the resources of the components that these tools belong to, as far as they may be read.
    pub(crate) fn new(provider: &dyn ToolProvider, tools: &[Arc<Tool>], own: &Library) -> Self {
        let namespaces: BTreeSet<_> = tools.iter().filter_map(|tool| tool.namespace()).collect();
        let readers = namespaces.into_iter().filter_map(|name| provider.find(&LibraryMethod::Read.full_name(name)));
        let mut library = Self::default();
        for reader in readers.filter(|reader| reader.is_approved()) {
            let Some(resources) = reader.resources() else { continue };
            let origins = resources.page_origins.as_deref();
            for resource in &resources.definitions {
                let is_taken =
                    library.resources.contains_key(&resource.uri) || own.entries().contains_key(&resource.uri);
                if is_taken {
                    continue;
                }
                let definition = to_definition(resource, origins.unwrap_or_default());
                let reader = Arc::clone(&reader);
                let page = resource.page.clone();
                library.resources.insert(resource.uri.clone(), ComponentResource { reader, page, definition });
            }
        }
        library
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    pub(crate) fn get(&self, uri: &str) -> Option<&ComponentResource> {
        self.resources.get(uri)
    }

    /// Returns all resources by their URIs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &ComponentResource)> {
        self.resources.iter()
    }

    /// Returns the URI of the page of a component's tool.
    pub(crate) fn page_of(&self, tool: &Tool) -> Option<&str> {
        let name = &tool.definition().name;
        let found = self.resources.iter().find(|(_, resource)| {
            let is_for = resource.page.as_ref().is_some_and(|page| page.tools.contains(name));
            is_for && resource.reader.namespace() == tool.namespace()
        });
        found.map(|(uri, _)| uri.as_str())
    }

    /// Returns whether clients see the same of both.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let own = self.resources.values().map(|resource| &resource.definition);
        own.eq(other.resources.values().map(|resource| &resource.definition))
    }
}

impl ComponentResource {
    /// Returns the full name of the tool that stands for reading it.
    pub(crate) fn reader(&self) -> &str {
        self.reader.full_name()
    }

    pub(crate) fn is_page(&self) -> bool {
        self.page.is_some()
    }

    /// Returns the definition in the form of the protocol.
    pub(crate) fn definition(&self) -> &Map<String, Value> {
        &self.definition
    }
}

/// Returns the definition in the form of the protocol, with the origins that the operator allows.
fn to_definition(resource: &ResourceDefinition, origins: &[String]) -> Map<String, Value> {
    let mut sanitizer = Sanitizer::default();
    let mut definition = Map::new();
    definition.insert("uri".to_owned(), resource.uri.clone().into());
    definition.insert("name".to_owned(), sanitizer.untrusted(&resource.name).into());
    let title = resource.title.as_ref().map(|title| sanitizer.untrusted(title));
    let description = resource.description.as_ref().map(|description| sanitizer.untrusted(description));
    let texts = [("title", title), ("description", description), ("mimeType", resource.mime_type.clone())];
    definition.extend(texts.into_iter().filter_map(|(member, text)| Some((member.to_owned(), text?.into()))));
    let mut meta = None;
    sanitizer.report(&mut meta);
    let mut meta = meta.map(|meta| meta.0).unwrap_or_default();
    if let Some(page) = &resource.page {
        meta.insert(apps::META_KEY.to_owned(), to_ui(page));
    }
    if !meta.is_empty() {
        definition.insert("_meta".to_owned(), meta.into());
    }
    apps::restrict(&mut definition, origins);
    definition
}

/// Returns the settings of a page as `_meta.ui` has them.
fn to_ui(page: &PageDefinition) -> Value {
    let lists = [
        ("connectDomains", &page.connect_domains),
        ("resourceDomains", &page.resource_domains),
        ("frameDomains", &page.frame_domains),
        ("baseUriDomains", &page.base_uri_domains),
    ];
    let asked = lists.into_iter().filter(|(_, origins)| !origins.is_empty());
    let csp: Map<String, Value> = asked.map(|(list, origins)| (list.to_owned(), json!(origins))).collect();
    let mut ui = Map::new();
    if !csp.is_empty() {
        ui.insert("csp".to_owned(), csp.into());
    }
    ui.extend(page.prefers_border.map(|prefers| ("prefersBorder".to_owned(), prefers.into())));
    Value::Object(ui)
}

#[cfg(test)]
mod tests {
    use fumehood_core::tool::resource::{PAGE_MIME_TYPE, RawPage, RawResource};

    use super::*;

    #[test]
    fn a_page_is_defined_with_the_allowed_origins_only() {
        let page = RawPage {
            connect_domains: vec!["https://a.example".to_owned(), "https://b.example".to_owned()],
            frame_domains: vec!["https://b.example".to_owned()],
            prefers_border: Some(true),
            ..RawPage::default()
        };
        let resource = RawResource {
            uri: "ui://c/v".to_owned(),
            name: "v".to_owned(),
            title: Some("a\u{200b}".to_owned()),
            mime_type: Some(PAGE_MIME_TYPE.to_owned()),
            page: Some(page),
            ..RawResource::default()
        };
        let resource = resource.parse().unwrap();
        let csp = |origins: &[String]| to_definition(&resource, origins)["_meta"]["ui"]["csp"].clone();
        let some = to_definition(&resource, &["https://a.example".to_owned()]);
        let ui = json!({"csp": {"connectDomains": ["https://a.example"], "frameDomains": []}, "prefersBorder": true});
        let expected = json!({
            "uri": "ui://c/v", "name": "v", "title": "a\\u{200b}", "mimeType": PAGE_MIME_TYPE,
            "_meta": {"fumehood/sanitized": 1, "ui": ui},
        });
        assert_eq!(Value::Object(some), expected);
        assert_eq!(csp(&[]), json!({"connectDomains": [], "frameDomains": []}));
    }
}
