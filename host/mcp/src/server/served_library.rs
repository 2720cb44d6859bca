//! The resources and prompts that one client sees: those of the operator, of components, and of MCP servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use fumehood_core::tool::name::SEPARATOR;
use futures_util::future::join_all;
use rmcp::model::{Prompt, Resource, ResourceTemplate};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::component_library::ComponentResource;
use super::library::Library;
use super::mcp_server::Server;
use super::tools::Catalogue;
use crate::apps;
use crate::client::{LibraryMethod, RemoteLibrary};

/// The resources and prompts that a client sees. Of two with one URI, that of the operator comes first, then those of components,
/// and then that of the server whose name comes first.
pub(super) struct ServedLibrary<'a> {
    server: &'a Server,
    catalogue: Arc<Catalogue>,
    /// True if the client shows pages of MCP Apps.
    has_apps: bool,
}

impl<'a> ServedLibrary<'a> {
    pub(super) fn new(server: &'a Server, has_apps: bool) -> Self {
        Self { server, catalogue: server.catalogue(), has_apps }
    }

    /// Returns the entries of the operator.
    pub(super) fn own(&self) -> &'a Library {
        &self.server.options().library
    }

    /// Returns the servers that answer a method, for this client.
    pub(super) fn servers(&self, method: LibraryMethod) -> impl Iterator<Item = &'a RemoteLibrary> {
        let server = self.server;
        server.options().servers.iter().filter(move |library| answers(server, library, method))
    }

    pub(super) fn has_resources(&self) -> bool {
        !self.own().entries().is_empty()
            || self.has_component_resources()
            || self.servers(LibraryMethod::Read).next().is_some()
    }

    /// Returns whether components have resources, for some clients at least.
    pub(super) fn has_component_resources(&self) -> bool {
        !self.catalogue.resources().is_empty()
    }

    pub(super) fn component_resource(&self, uri: &str) -> Option<&ComponentResource> {
        let resource = self.catalogue.resources().get(uri);
        resource.filter(|resource| self.has_apps || !resource.is_page())
    }

    pub(super) fn has_prompts(&self) -> bool {
        !self.own().prompts().is_empty() || self.servers(LibraryMethod::Get).next().is_some()
    }

    pub(super) fn has_completions(&self) -> bool {
        self.servers(LibraryMethod::Complete).next().is_some()
    }

    pub(super) fn takes_subscriptions(&self) -> bool {
        self.servers(LibraryMethod::Read).any(RemoteLibrary::takes_subscriptions)
    }

    /// Lists the libraries of all servers anew. What a server that cannot be used, or is slow, listed before stays.
    pub(super) async fn refresh(&self, method: LibraryMethod) {
        join_all(self.servers(method).map(RemoteLibrary::refresh_for_client)).await;
    }

    /// Returns the resources of components and servers, by their URIs.
    pub(super) fn resources(&self) -> BTreeMap<String, Resource> {
        let components = self.catalogue.resources();
        let mut all = self.collect(LibraryMethod::Read, |library| {
            let mut resources = library.resources();
            let shows_apps = self.shows_apps(library);
            resources.retain(|(uri, _)| (shows_apps || !apps::is_app_uri(uri)) && components.get(uri).is_none());
            resources
        });
        let shown = components.iter().filter(|(_, resource)| self.has_apps || !resource.is_page());
        all.extend(shown.filter_map(|(uri, resource)| {
            let definition = Value::Object(resource.definition().clone());
            Some((uri.clone(), serde_json::from_value(definition).ok()?))
        }));
        all
    }

    /// Returns the templates of servers.
    pub(super) fn templates(&self) -> BTreeMap<String, ResourceTemplate> {
        self.collect(LibraryMethod::Read, RemoteLibrary::templates)
    }

    /// Returns the prompts of servers, by the names that clients use.
    pub(super) fn prompts(&self) -> BTreeMap<String, Prompt> {
        let mut prompts: BTreeMap<String, Prompt> = self.collect(LibraryMethod::Get, |library| {
            let named = library.prompts().into_iter();
            named.map(|(name, value)| (format!("{}{SEPARATOR}{name}", library.name()), value)).collect()
        });
        prompts.iter_mut().for_each(|(name, prompt)| prompt.name.clone_from(name));
        prompts
    }

    fn collect<T: DeserializeOwned>(
        &self,
        method: LibraryMethod,
        list: impl Fn(&RemoteLibrary) -> Vec<(String, Value)>,
    ) -> BTreeMap<String, T> {
        let mut all = BTreeMap::new();
        for library in self.servers(method) {
            let is_restricted = !self.shows_apps(library);
            for (key, mut value) in list(library) {
                if let (true, Value::Object(definition)) = (is_restricted, &mut value) {
                    apps::remove(definition);
                }
                if let (false, Ok(item)) = (all.contains_key(&key), serde_json::from_value(value)) {
                    all.insert(key, item);
                }
            }
        }
        all
    }

    /// Returns whether pages of a server are passed on to this client.
    pub(super) fn shows_apps(&self, library: &RemoteLibrary) -> bool {
        self.has_apps && library.passes_apps()
    }

    /// Returns the server that has a resource, unless the operator or a component has one of that URI: the first that lists it, that has a template for it, or that has others with
    /// its scheme; else the only one with resources.
    pub(super) fn server_of_resource(&self, uri: &str) -> Option<&'a RemoteLibrary> {
        if self.own().entries().contains_key(uri) || self.catalogue.resources().get(uri).is_some() {
            return None;
        }
        let servers: Vec<_> = self.servers(LibraryMethod::Read).collect();
        let ways: [fn(&RemoteLibrary, &str) -> bool; 3] =
            [RemoteLibrary::has_resource, RemoteLibrary::has_template_for, RemoteLibrary::has_scheme_of];
        let found = ways.iter().find_map(|is_its| servers.iter().find(|library| is_its(library, uri)));
        let only = servers.first().filter(|_| servers.len() == 1);
        found.or(only).copied().filter(|library| !apps::is_app_uri(uri) || self.shows_apps(library))
    }

    /// Returns the server that has a prompt, and the server's own name of it, unless the operator has one of that name.
    pub(super) fn server_of_prompt<'n>(&self, name: &'n str) -> Option<(&'a RemoteLibrary, &'n str)> {
        if self.own().prompts().contains_key(name) {
            return None;
        }
        self.servers(LibraryMethod::Get).find_map(|library| {
            let own = name.strip_prefix(library.name().as_str())?.strip_prefix(SEPARATOR)?;
            library.prompts().iter().any(|(known, _)| known == own).then_some((library, own))
        })
    }
}

/// Returns whether a server answers a method for the clients that these tools are for.
pub(super) fn answers(server: &Server, library: &RemoteLibrary, method: LibraryMethod) -> bool {
    let tool = server.tools().find(&method.full_name(library.name()));
    library.offers(method) && tool.is_some_and(|tool| tool.is_approved())
}
