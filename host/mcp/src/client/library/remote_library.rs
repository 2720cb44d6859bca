//! The resources and prompts of a server, as far as they are passed on.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::call::result::CallError;
use fumehood_core::digest::Digest;
use fumehood_core::policy::approval::LibraryItem;
use fumehood_core::text::sanitize::printable;
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::{Changes, Revision, Tool};
use rmcp::model::ServerResult;
use serde_json::Value;
use tokio::sync::Mutex;

use super::definition::Definition;
use super::lists::Lists;
use super::request::LibraryRequest;
use super::subscriptions::{self, Subscriptions};
use super::{LibraryEvents, LibraryMethod, ResourceSubscription, result, uri_template};
use crate::client::backoff::Backoff;
use crate::client::call_client::{self, CallClient, MAX_REQUESTS};
use crate::client::call_error;
use crate::client::call_tool_result::{self, Answer};
use crate::client::connect_error::ConnectError;
use crate::client::connection::Connection;
use crate::client::remote::Remote;
use crate::client::tool_notice::ToolNotice;

/// Time for which a list is not requested again.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum time that a client waits for new lists of a server.
const MAX_CLIENT_WAIT: Duration = Duration::from_secs(3);

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
    /// Locked while the lists are requested.
    refreshes: Mutex<Refreshes>,
    /// Advances when other lists than before were read.
    listed: Revision,
    /// True if somebody was answered with the lists from before while others were requested.
    has_early_answers: AtomicBool,
}

/// The requests for lists until now.
#[derive(Default)]
struct Refreshes {
    /// The time of the last one.
    last: Option<Instant>,
    backoff: Backoff,
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

    /// Lists resources, templates and prompts, unless that was done a moment ago, or is under way. After a change that the
    /// server reported, waits until a second after the last list.
    ///
    /// # Errors
    /// If the server cannot be used, or could not be a moment ago. What it listed before stays.
    pub async fn refresh(&self) -> Result<(), ConnectError> {
        let LibraryOptions { resources, prompts, .. } = *self.options();
        if !resources && !prompts {
            return Ok(());
        }
        let state = self.state();
        let Ok(mut refreshes) = state.refreshes.try_lock() else {
            state.has_early_answers.store(true, Ordering::Relaxed);
            return Ok(());
        };
        if let Some(wait) = refreshes.backoff.remaining(Instant::now()) {
            return Err(ConnectError::TooEarly(wait));
        }
        let rest = refreshes.last.and_then(|last| FRESH.checked_sub(last.elapsed()));
        if let Some(rest) = rest {
            if !state.events.is_stale() {
                return Ok(());
            }
            tokio::time::sleep(rest).await;
        }
        // What is reported from now on may not be in the lists.
        state.events.take_stale();
        let listed = self.list().await;
        refreshes.last = Some(Instant::now());
        match listed {
            Ok(lists) => {
                refreshes.backoff.reset();
                self.take(lists);
                Ok(())
            }
            Err(error) => {
                refreshes.backoff.record_failure(Instant::now());
                state.events.set_stale();
                Err(error)
            }
        }
    }

    async fn list(&self) -> Result<Lists, ConnectError> {
        let connection = self.0.connection().await?;
        let patience = self.0.options().patience;
        let before = self.state().lists();
        let listed = tokio::time::timeout(patience, Lists::read(&connection, self.0.options(), &before)).await;
        listed.map_err(|_elapsed| ConnectError::Late(patience))
    }

    fn take(&self, lists: Lists) {
        let state = self.state();
        let lists = Arc::new(lists);
        let before = {
            let mut kept = state.lists.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *kept, Arc::clone(&lists))
        };
        let had_early_answers = state.has_early_answers.swap(false, Ordering::Relaxed);
        if lists.are_same(&before) {
            return;
        }
        state.listed.advance();
        if had_early_answers {
            state.events.ask_again();
        }
    }

    /// Like [`Self::refresh`], for a client that does not wait for long: one that is answered before is told of the change.
    pub(crate) async fn refresh_for_client(&self) {
        let library = self.clone();
        let refreshing = tokio::spawn(async move { library.refresh().await });
        if tokio::time::timeout(MAX_CLIENT_WAIT, refreshing).await.is_err() {
            self.state().has_early_answers.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether the lists were read once.
    #[must_use]
    pub fn was_listed(&self) -> bool {
        self.state().lists().were_read
    }

    /// Subscribes to changes that the server reports, and to other lists than before.
    #[must_use]
    pub fn changes(&self) -> Changes {
        let events = self.events();
        events.subscribe_to_resources().and(events.subscribe_to_prompts()).and(self.state().listed.subscribe())
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

    /// Returns notices about definitions that are left out because of what they are.
    #[must_use]
    pub fn notices(&self) -> Vec<ToolNotice> {
        self.state().lists().notices.clone()
    }

    /// Returns notices about definitions that wait for an approval.
    #[must_use]
    pub fn waiting_notices(&self) -> Vec<ToolNotice> {
        let unapproved = |item: &LibraryItem| {
            let name = item.name.to_sanitized();
            ToolNotice::new(&name, format!("the current version of the {} is not approved", item.kind.as_str()))
        };
        let items = self.items();
        items.iter().filter(|item| !self.state().is_approved(&item.digest())).map(unapproved).collect()
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

    pub(crate) fn has_template_for(&self, uri: &str) -> bool {
        self.templates().iter().any(|(template, _)| template == uri || uri_template::matches(template, uri))
    }

    /// Returns whether the server has resources or templates with the scheme of a URI.
    pub(crate) fn has_scheme_of(&self, uri: &str) -> bool {
        let lists = self.state().lists();
        let mut keys = lists.resources.iter().chain(&lists.templates).map(|it| scheme_of(&it.key));
        scheme_of(uri).is_some_and(|wanted| keys.any(|has| has.as_ref() == Some(&wanted)))
    }

    /// Returns whether pages of MCP Apps are passed on.
    pub(crate) fn passes_apps(&self) -> bool {
        self.has_apps()
    }

    pub(crate) fn events(&self) -> &Arc<LibraryEvents> {
        &self.state().events
    }

    /// Subscribes a session of this principal to a resource.
    ///
    /// # Errors
    /// A sentence, if the server cannot be used, or refuses.
    pub(crate) async fn subscribe(&self, uri: &str, owner: &Arc<str>) -> Result<ResourceSubscription, String> {
        let connection = self.0.connection().await.map_err(|error| self.printable(&error.to_string()))?;
        let joined = Subscriptions::join(&self.state().subscriptions, uri, owner)?;
        let outcome = joined.outcome();
        let asked = outcome.get_or_init(async || {
            let subscribing = subscriptions::subscribe(&connection, uri, joined.ended());
            match tokio::time::timeout(self.0.deadline(), subscribing).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => {
                    let why = format!("the server `{}` refused the subscription: {error}", self.name());
                    Err(self.printable(&why))
                }
                Err(_elapsed) => Err(format!("the server `{}` did not answer in time", self.name())),
            }
        });
        asked.await.clone()?;
        Ok(joined)
    }

    /// Returns a text with words of the server as it may be shown.
    fn printable(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.0.options().redactor.iter().for_each(|redactor| redactor.redact_text(&mut text));
        printable(&text).chars().take(call_error::MAX_QUOTED_CHARS).collect()
    }

    /// Sends a request to the server for a call.
    pub(in crate::client) async fn ask(
        &self,
        connection: &Connection,
        mut request: LibraryRequest,
        client: CallClient,
    ) -> Result<Answer, CallError> {
        let options = self.0.options();
        request.check(self, options)?;
        // The first request, and one after each answer of the client.
        for _ in 0..=MAX_REQUESTS {
            let built = request.build().map_err(call_error::from_refused_input)?;
            let answer = connection.request(built, &client).await;
            match answer.map_err(|error| self.0.service_error(connection, error))? {
                ServerResult::InputRequiredResult(needed) => {
                    let (answers, state) = self.0.requests().answer_inputs(needed, &client).await?;
                    request.add_answers(answers, state);
                }
                answer => {
                    let result = request.normalize(result::to_value(answer), options).ok_or_else(|| {
                        call_error::unreadable(self.name(), &format!("it is not a result of {}", request.method.name()))
                    })?;
                    return call_tool_result::read_json(&result, options.output);
                }
            }
        }
        Err(call_error::from_refused_input(call_client::too_many_requests()))
    }
}

fn scheme_of(uri: &str) -> Option<String> {
    uri.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase())
}
