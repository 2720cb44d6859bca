//! The resources and prompts of a server, as far as they are passed on.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::digest::Digest;
use fumehood_core::policy::approval::LibraryItem;
use fumehood_core::tool::Tool;
use fumehood_core::tool::name::Namespace;
use rmcp::model::{ClientRequest, CustomResult, ErrorCode, ServerCapabilities, ServerResult};
use rmcp::service::ServiceError;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::definition::{Definition, ListKind};
use super::subscriptions::{self, Subscriptions};
use super::{LibraryEvents, LibraryMethod, MAX_LISTED_ITEMS, ResourceSubscription, uri_template};
use crate::apps;
use crate::client::MAX_PAGES;
use crate::client::connect_error::ConnectError;
use crate::client::connection::Connection;
use crate::client::lenient;
use crate::client::remote::Remote;
use crate::client::tool_notice::ToolNotice;

/// Time for which a list is not requested again, unless the server reports a change.
const FRESH: Duration = Duration::from_secs(1);

/// The resources and prompts of a server that are passed on to clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibraryOptions {
    /// True if resources are.
    pub resources: bool,
    /// True if prompts are.
    pub prompts: bool,
    /// The origins that pages of MCP Apps may reach, such as `https://api.example.com`.
    pub app_origins: Vec<String>,
}

/// The state of a server's library.
#[derive(Default)]
pub(crate) struct LibraryState {
    pub(crate) events: Arc<LibraryEvents>,
    subscriptions: Arc<Subscriptions>,
    lists: Lock<Arc<Lists>>,
    /// The digests of the items that were approved; `None` if none need to be.
    approved: Lock<Option<BTreeSet<Digest>>>,
    /// The time of the last list.
    refreshed: Mutex<Option<Instant>>,
}

/// What a server listed last.
#[derive(Default)]
struct Lists {
    capabilities: ServerCapabilities,
    resources: Vec<Definition>,
    templates: Vec<Definition>,
    prompts: Vec<Definition>,
    notices: Vec<ToolNotice>,
}

impl LibraryState {
    /// Renews the subscriptions of sessions on a new connection.
    pub(crate) fn renew_subscriptions(&self, connection: &Arc<Connection>) {
        self.subscriptions.renew(connection);
    }

    fn lists(&self) -> Arc<Lists> {
        Arc::clone(&self.lists.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_approved(&self, digest: &Digest) -> bool {
        let approved = self.approved.lock().unwrap_or_else(PoisonError::into_inner);
        approved.as_ref().is_none_or(|approved| approved.contains(digest))
    }
}

/// The resources and prompts of a server. Cheap to clone; clones share their state.
///
/// Requests are made as calls of [`Self::tools`], so that they pass everything that calls of the server's tools pass.
#[derive(Clone)]
pub struct RemoteLibrary(pub(in crate::client) Remote);

impl fmt::Debug for RemoteLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteLibrary").field("server", self.name()).finish_non_exhaustive()
    }
}

impl RemoteLibrary {
    /// Returns the name of the server.
    #[must_use]
    pub fn name(&self) -> &Namespace {
        self.0.name()
    }

    fn state(&self) -> &LibraryState {
        self.0.library_state()
    }

    fn options(&self) -> &LibraryOptions {
        &self.0.options().library
    }

    fn has_apps(&self) -> bool {
        self.0.options().client_requests.apps
    }

    /// Lists resources, templates and prompts, unless that was done a moment ago.
    ///
    /// # Errors
    /// If the server cannot be used. What it listed before stays.
    pub async fn refresh(&self) -> Result<(), ConnectError> {
        let LibraryOptions { resources, prompts, .. } = *self.options();
        if !resources && !prompts {
            return Ok(());
        }
        let mut refreshed = self.state().refreshed.lock().await;
        let is_fresh = refreshed.is_some_and(|at| at.elapsed() < FRESH);
        if is_fresh && !self.state().events.take_stale() {
            return Ok(());
        }
        let connection = self.0.connection().await?;
        let patience = self.0.options().patience;
        let listed = tokio::time::timeout(patience, self.list(&connection)).await;
        let lists = listed.map_err(|_elapsed| ConnectError::Late(patience))?;
        *self.state().lists.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(lists);
        *refreshed = Some(Instant::now());
        Ok(())
    }

    async fn list(&self, connection: &Connection) -> Lists {
        let info = connection.peer().peer_info();
        let capabilities = info.map(|info| info.capabilities.clone()).unwrap_or_default();
        let LibraryOptions { resources, prompts, .. } = *self.options();
        let has_resources = resources && capabilities.resources.is_some();
        let has_prompts = prompts && capabilities.prompts.is_some();
        let mut lists = Lists { capabilities, ..Lists::default() };
        if has_resources {
            lists.resources = self.list_kind(connection, ListKind::Resources, &mut lists.notices).await;
            lists.templates = self.list_kind(connection, ListKind::Templates, &mut lists.notices).await;
        }
        if has_prompts {
            lists.prompts = self.list_kind(connection, ListKind::Prompts, &mut lists.notices).await;
        }
        lists
    }

    /// Lists the definitions of one kind. A list that does not end is cut off, with a notice.
    async fn list_kind(
        &self,
        connection: &Connection,
        kind: ListKind,
        notices: &mut Vec<ToolNotice>,
    ) -> Vec<Definition> {
        let (mut definitions, mut keys) = (Vec::new(), BTreeSet::new());
        let (mut cursor, mut cursors) = (None, BTreeSet::new());
        let app_origins = self.has_apps().then_some(self.options().app_origins.as_slice());
        loop {
            let page = match list_page(connection, kind, cursor.take()).await {
                Ok(page) => page,
                // Many servers with resources have no templates.
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => return definitions,
                Err(error) => {
                    notices.push(ToolNotice::new(kind.member(), format!("they cannot be listed: {error}")));
                    return definitions;
                }
            };
            for value in page.definitions {
                match Definition::read(kind, value, app_origins) {
                    Ok(definition) if app_origins.is_none() && apps::is_app_uri(&definition.key) => {}
                    Ok(definition) if !keys.insert(definition.key.clone()) => {
                        notices
                            .push(ToolNotice::new(&definition.key, "the server lists it twice; the first one is used"));
                    }
                    Ok(definition) => definitions.push(definition),
                    Err(notice) => notices.push(notice),
                }
            }
            let Some(next) = page.next.filter(|cursor| !cursor.is_empty()) else { return definitions };
            if definitions.len() > MAX_LISTED_ITEMS || cursors.len() >= MAX_PAGES || !cursors.insert(next.clone()) {
                definitions.truncate(MAX_LISTED_ITEMS);
                let why = format!("the list goes on after {} of them, and is cut off there", definitions.len());
                notices.push(ToolNotice::new(kind.member(), why));
                return definitions;
            }
            cursor = Some(next);
        }
    }

    /// Withholds all templates and prompts, and the resources as a whole, that are not among these.
    pub fn pin(&self, approved: &[LibraryItem]) {
        let approved = approved.iter().map(LibraryItem::digest).collect();
        *self.state().approved.lock().unwrap_or_else(PoisonError::into_inner) = Some(approved);
    }

    /// Returns the items that an approval of the server covers.
    #[must_use]
    pub fn items(&self) -> Vec<LibraryItem> {
        let lists = self.state().lists();
        let listed = lists.templates.iter().chain(&lists.prompts).map(|definition| definition.item.clone());
        let resources = self.lists_resources(&lists).then(LibraryItem::all_resources);
        resources.into_iter().chain(listed).collect()
    }

    fn lists_resources(&self, lists: &Lists) -> bool {
        self.options().resources && lists.capabilities.resources.is_some()
    }

    /// Returns notices about definitions that are left out, and about those that wait for an approval.
    #[must_use]
    pub fn notices(&self) -> Vec<ToolNotice> {
        let lists = self.state().lists();
        let unapproved = |item: &LibraryItem| {
            let name = item.name.to_sanitized();
            ToolNotice::new(&name, format!("the {} is not approved as it is now", item.kind.as_str()))
        };
        let items = self.items();
        let waiting = items.iter().filter(|item| !self.state().is_approved(&item.digest())).map(unapproved);
        lists.notices.iter().cloned().chain(waiting).collect()
    }

    /// Returns the tools in place of the requests that the server answers. Clients do not see them.
    #[must_use]
    pub fn tools(&self) -> Vec<Tool> {
        let limits = self.0.options().gate.clone();
        let offered = LibraryMethod::ALL.into_iter().filter(|method| self.offers(*method));
        offered.filter_map(|method| method.tool(self.name(), &limits)).collect()
    }

    pub(crate) fn offers(&self, method: LibraryMethod) -> bool {
        let lists = self.state().lists();
        match method {
            LibraryMethod::Read => {
                self.lists_resources(&lists) && self.state().is_approved(&LibraryItem::all_resources().digest())
            }
            LibraryMethod::Get => self.options().prompts && lists.capabilities.prompts.is_some(),
            LibraryMethod::Complete => lists.capabilities.completions.is_some(),
        }
    }

    /// Returns whether the server takes subscriptions to resources.
    pub(crate) fn takes_subscriptions(&self) -> bool {
        let lists = self.state().lists();
        lists.capabilities.resources.as_ref().is_some_and(|resources| resources.subscribe == Some(true))
    }

    /// Returns the definitions of resources, with their URIs.
    pub(crate) fn resources(&self) -> Vec<(String, Value)> {
        self.approved(&self.state().lists().resources, false)
    }

    /// Returns the definitions of templates, with the templates.
    pub(crate) fn templates(&self) -> Vec<(String, Value)> {
        self.approved(&self.state().lists().templates, true)
    }

    /// Returns the definitions of prompts, with the server's own names.
    pub(crate) fn prompts(&self) -> Vec<(String, Value)> {
        self.approved(&self.state().lists().prompts, true)
    }

    fn approved(&self, definitions: &[Definition], is_pinned: bool) -> Vec<(String, Value)> {
        let approved = definitions.iter().filter(|it| !is_pinned || self.state().is_approved(&it.digest));
        approved.map(|it| (it.key.clone(), it.value.clone())).collect()
    }

    /// Returns whether the server lists this resource.
    pub(crate) fn has_resource(&self, uri: &str) -> bool {
        self.state().lists().resources.iter().any(|it| it.key == uri)
    }

    /// Returns whether the URI is one of a template.
    pub(crate) fn has_template_for(&self, uri: &str) -> bool {
        self.templates().iter().any(|(template, _)| template == uri || uri_template::matches(template, uri))
    }

    /// Returns whether the server has resources or templates with the scheme of a URI.
    pub(crate) fn has_scheme_of(&self, uri: &str) -> bool {
        let scheme = |uri: &str| uri.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let lists = self.state().lists();
        let mut keys = lists.resources.iter().chain(&lists.templates).map(|it| scheme(&it.key));
        scheme(uri).is_some_and(|wanted| keys.any(|has| has.as_ref() == Some(&wanted)))
    }

    /// Returns whether pages of MCP Apps are passed on.
    pub(crate) fn passes_apps(&self) -> bool {
        self.has_apps()
    }

    pub(crate) fn events(&self) -> &Arc<LibraryEvents> {
        &self.state().events
    }

    /// Subscribes a session to a resource.
    ///
    /// # Errors
    /// A sentence, if the server cannot be used, or refuses.
    pub(crate) async fn subscribe(&self, uri: &str) -> Result<ResourceSubscription, String> {
        let connection = self.0.connection().await.map_err(|error| error.to_string())?;
        let (uri, subscriptions) = (Arc::<str>::from(uri), Arc::clone(&self.state().subscriptions));
        let first = subscriptions.join(&uri)?;
        let connected = Arc::downgrade(&connection);
        let joined = ResourceSubscription { subscriptions, uri: Arc::clone(&uri), connection: connected };
        if let Some(ended) = first {
            let asked =
                tokio::time::timeout(self.0.deadline(), subscriptions::subscribe(&connection, &uri, ended)).await;
            match asked {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    return Err(format!("the server `{}` refused the subscription: {error}", self.name()));
                }
                Err(_elapsed) => return Err(format!("the server `{}` did not answer in time", self.name())),
            }
        }
        Ok(joined)
    }

    /// Builds the request of a method from its arguments.
    ///
    /// # Errors
    /// If the server's pages may not be read.
    pub(in crate::client) fn request(&self, method: LibraryMethod, params: &Value) -> Result<ClientRequest, String> {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
        if method == LibraryMethod::Read && apps::is_app_uri(uri) && !self.has_apps() {
            return Err(format!("the operator does not allow pages of the server `{}`", self.name()));
        }
        let request = json!({"method": method.name(), "params": params});
        serde_json::from_value(request).map_err(|error| format!("the request cannot be made: {error}"))
    }

    /// Returns the result of a method in the form of the protocol; parts that cannot be read are described.
    pub(in crate::client) fn normalize(&self, method: LibraryMethod, params: &Value, result: Value) -> Option<Value> {
        let Value::Object(result) = result else { return None };
        match method {
            LibraryMethod::Read => {
                let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
                let app_origins = self.has_apps().then_some(self.options().app_origins.as_slice());
                normalize_read(result, uri, app_origins)
            }
            LibraryMethod::Get => normalize_messages(result),
            LibraryMethod::Complete => result.get("completion").is_some().then_some(Value::Object(result)),
        }
    }
}

/// A page of a list.
struct Page {
    definitions: Vec<Value>,
    next: Option<String>,
}

async fn list_page(connection: &Connection, kind: ListKind, cursor: Option<String>) -> Result<Page, ServiceError> {
    let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
    let request = serde_json::from_value(json!({"method": kind.method(), "params": params}));
    let request: ClientRequest = request.map_err(|_| ServiceError::UnexpectedResponse)?;
    let answer = connection.unless_closed(connection.peer().send_request(request)).await?;
    let Value::Object(mut page) = result_value(answer) else { return Err(ServiceError::UnexpectedResponse) };
    let Some(Value::Array(definitions)) = page.remove(kind.member()) else {
        return Err(ServiceError::UnexpectedResponse);
    };
    let next = page.remove("nextCursor").and_then(|cursor| cursor.as_str().map(str::to_owned));
    Ok(Page { definitions, next })
}

/// Returns a result as the server wrote it.
pub(in crate::client) fn result_value(result: ServerResult) -> Value {
    match result {
        ServerResult::CustomResult(CustomResult(value)) => value,
        typed => serde_json::to_value(typed).unwrap_or_default(),
    }
}

/// Returns the contents of a resource, part by part. Without `app_origins`, nothing of MCP Apps is left in them.
pub(crate) fn normalize_read(
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
fn normalize_messages(mut result: Map<String, Value>) -> Option<Value> {
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
