//! The resources and prompts of a server, as far as they are passed on.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::call::result::CallError;
use fumehood_core::digest::Digest;
use fumehood_core::policy::approval::LibraryItem;
use fumehood_core::tool::Tool;
use fumehood_core::tool::name::Namespace;
use rmcp::model::{ClientRequest, ErrorCode, ServerCapabilities, ServerResult};
use rmcp::service::ServiceError;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::definition::{Definition, ListKind, list_page};
use super::subscriptions::{self, Subscriptions};
use super::{LibraryEvents, LibraryMethod, MAX_LISTED_ITEMS, ResourceSubscription, result, uri_template};
use crate::apps;
use crate::client::call_client::CallClient;
use crate::client::call_error;
use crate::client::call_tool_result::{self, Answer};
use crate::client::connect_error::ConnectError;
use crate::client::connection::Connection;
use crate::client::remote::{MAX_INPUT_ROUNDS, Remote};
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
        let mut definitions = Vec::new();
        let mut keys = BTreeSet::new();
        let mut cursor = None;
        let mut cursors = BTreeSet::new();
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
            if definitions.len() > MAX_LISTED_ITEMS
                || cursors.len() >= MAX_LISTED_ITEMS
                || !cursors.insert(next.clone())
            {
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
        let now: BTreeSet<Digest> = approved.iter().map(LibraryItem::digest).collect();
        let mut pinned = self.state().approved.lock().unwrap_or_else(PoisonError::into_inner);
        let is_change = pinned.as_ref().is_some_and(|before| *before != now);
        *pinned = Some(now);
        drop(pinned);
        if is_change {
            self.events().resources_changed();
            self.events().prompts_changed();
        }
    }

    /// Returns whether something waits for an approval.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.items().iter().any(|item| !self.state().is_approved(&item.digest()))
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
        let uri = Arc::<str>::from(uri);
        let subscriptions = Arc::clone(&self.state().subscriptions);
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

    /// Sends a request to the server for a call.
    pub(in crate::client) async fn ask(
        &self,
        connection: &Connection,
        method: LibraryMethod,
        mut params: Value,
        client: CallClient,
    ) -> Result<Answer, CallError> {
        for _ in 0..MAX_INPUT_ROUNDS {
            let request = self.request(method, &params).map_err(call_error::from_refused_input)?;
            let answer = connection.request(request, &client).await;
            match answer.map_err(|error| self.0.service_error(connection, error))? {
                ServerResult::InputRequiredResult(needed) => {
                    let (answers, state) = self.0.requests().answer_inputs(needed, &client).await?;
                    if let Value::Object(params) = &mut params {
                        params.insert("inputResponses".to_owned(), serde_json::to_value(answers).unwrap_or_default());
                        params.insert("requestState".to_owned(), state.into());
                    }
                }
                answer => {
                    let result = self.normalize(method, &params, result::to_value(answer)).ok_or_else(|| {
                        call_error::unreadable(self.name(), &format!("it is no result of {}", method.name()))
                    })?;
                    return call_tool_result::read_json(&result, self.0.options().output);
                }
            }
        }
        let why = format!("the server asked its user more than {MAX_INPUT_ROUNDS} times");
        Err(call_error::from_refused_input(why))
    }

    /// Builds the request of a method from its arguments.
    ///
    /// # Errors
    /// If the server's pages may not be read.
    fn request(&self, method: LibraryMethod, params: &Value) -> Result<ClientRequest, String> {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
        if method == LibraryMethod::Read && apps::is_app_uri(uri) && !self.has_apps() {
            return Err(format!("the operator does not allow pages of the server `{}`", self.name()));
        }
        let request = json!({"method": method.name(), "params": params});
        serde_json::from_value(request).map_err(|error| format!("the request cannot be made: {error}"))
    }

    /// Returns the result of a method in the form of the protocol; parts that cannot be read are described.
    fn normalize(&self, method: LibraryMethod, params: &Value, result: Value) -> Option<Value> {
        let Value::Object(result) = result else { return None };
        match method {
            LibraryMethod::Read => {
                let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
                let app_origins = self.has_apps().then_some(self.options().app_origins.as_slice());
                result::normalize_read(result, uri, app_origins)
            }
            LibraryMethod::Get => result::normalize_messages(result),
            LibraryMethod::Complete => result.get("completion").is_some().then_some(Value::Object(result)),
        }
    }
}
