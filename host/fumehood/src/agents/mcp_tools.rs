//! The tools of MCP servers as a [`ToolProvider`], behind the same gate as other tools.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;

use fumehood_agent::identity::ActorArguments;
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::log;
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::{Changes, PendingCall, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall};
use fumehood_mcp::{ConnectError, ListChanges, Remote, RemoteLibrary, ToolNotice};
use tokio::task::AbortHandle;

use super::list_change::{ListChange, ListObserver};
use super::server_source::{PinnedServer, ServerSource, acceptable, removed_refusal};
use crate::lock::approval_check::{ApprovalCheck, LockedApproval};

/// Maximum number of removed tools whose names are remembered.
const MAX_REMOVED: usize = 256;
/// Interval at which the approval of a server with waiting tools is looked at again.
const APPROVAL_INTERVAL: Duration = Duration::from_secs(2);

/// The tools of MCP servers, sorted by their names: those that the servers had when they were added, or, after
/// [`McpTools::follow`], those that they have now.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use fumehood::mcp::{Endpoint, Launch, Remote, RemoteOptions};
/// use fumehood::{Host, McpTools};
/// # use fumehood::model::ScriptedModel;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// # let host = Host::builder().build()?;
/// # let model = ScriptedModel::new(Vec::new());
/// let launch = Launch { program: "mcp-server-time".into(), ..Launch::default() };
/// let time = Remote::new("time".parse()?, Endpoint::Process(launch), RemoteOptions::default());
/// let tools = McpTools::default();
/// tools.add(&time).await?;
/// let mut agent = host.agent(Arc::new(model)).provider(Arc::new(tools)).allow_everything().build()?;
/// println!("{}", agent.run("What time is it in Tokyo?").await?.text());
/// # Ok(())
/// # }
/// ```
pub struct McpTools {
    state: RwLock<State>,
    actor_arguments: ActorArguments,
    revision: Revision,
    followers: Mutex<Vec<Follower>>,
}

/// The task that follows the changes of a server.
struct Follower {
    server: Namespace,
    task: AbortHandle,
}

#[derive(Default)]
struct State {
    tools: Vec<ServerTool>,
    /// The tools in place of requests for resources and prompts, which are not listed.
    requests: Vec<ServerTool>,
    sources: Vec<ServerSource>,
    /// Tools that servers had, which say so when they are called.
    removed: BTreeMap<String, Arc<Tool>>,
}

/// The changes of a server since its lists were taken last.
struct RefreshReport {
    change: ListChange,
    /// True if clients can ask for other things than before.
    has_other_requests: bool,
    /// New notices about its resources and prompts.
    notices: Vec<ToolNotice>,
}

/// A tool and the server that runs it.
#[derive(Clone)]
struct ServerTool {
    tool: Arc<Tool>,
    server: Remote,
}

impl fmt::Debug for McpTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTools").finish_non_exhaustive()
    }
}

impl Default for McpTools {
    /// Creates a provider without servers; arguments of their tools may have any name.
    fn default() -> Self {
        Self::without_arguments(ActorArguments::none())
    }
}

impl McpTools {
    /// Creates a provider without servers that leaves out tools with arguments of these names: they would let the model
    /// choose the actor.
    #[must_use]
    pub fn without_arguments(actor_arguments: ActorArguments) -> Self {
        let (state, followers) = Default::default();
        Self { state, actor_arguments, revision: Revision::default(), followers }
    }

    /// Connects to a server and adds its tools. A tool whose name or schema is not acceptable is left out, with a
    /// notice in [`McpTools::refused`]. One that changes later is withheld until the program is started again.
    ///
    /// # Errors
    /// If the server cannot be used. The tools of other servers are unchanged.
    pub async fn add(&self, remote: &Remote) -> Result<(), ConnectError> {
        remote.tools().await?;
        let mut source = ServerSource::new(remote.clone(), None);
        source.read_library().await;
        self.take(source);
        Ok(())
    }

    /// Like [`McpTools::add`], for a server whose tools have to be what was approved, as those of a component. `grants`
    /// has one line for each fact about the server itself, such as the program that is started. If the server is not
    /// what was approved, a model sees only the names of its tools, and calls of them fail with `needs_approval`
    /// without a request to the server. If it is, and its tools change later, those that are still what was approved can
    /// be called, and the others wait. Instructions, icons and metadata of a server are left out if its approval is older
    /// than they are.
    ///
    /// # Errors
    /// As for [`McpTools::add`].
    pub async fn add_pinned(
        &self,
        remote: &Remote,
        grants: Vec<String>,
        approved: impl Into<LockedApproval>,
    ) -> Result<ApprovalCheck, ConnectError> {
        remote.tools().await?;
        let mut source = ServerSource::new(remote.clone(), None);
        source.read_library().await;
        let mut pinned = PinnedServer::new(grants, approved.into());
        let (tools, _) = acceptable(remote.listed_tools(), &self.actor_arguments);
        pinned.compare(remote, &tools);
        let check = pinned.check.clone();
        source.pinned = Some(pinned);
        self.take(source);
        Ok(check)
    }

    fn take(&self, mut source: ServerSource) {
        let tools = source.tools(&self.actor_arguments);
        let requests = source.requests();
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.replace(&source.remote, tools);
        state.replace_requests(&source.remote, requests);
        state.sources.push(source);
        drop(state);
        self.revision.advance();
    }

    /// Removes a server with its tools, closes the connection to it, and ends the program behind it. Returns whether it was
    /// there.
    pub async fn remove(&self, server: &Namespace) -> bool {
        let Some(remote) = self.take_out(server) else { return false };
        self.revision.advance();
        remote.close().await;
        true
    }

    fn take_out(&self, server: &Namespace) -> Option<Remote> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let position = state.sources.iter().position(|source| source.remote.name() == server)?;
        let remote = state.sources.remove(position).remote;
        state.tools.retain(|known| known.server.name() != server);
        state.requests.retain(|known| known.server.name() != server);
        state.removed.retain(|_, tool| tool.namespace() != Some(server));
        drop(state);
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|follower| {
            let is_its = follower.server == *server;
            if is_its {
                follower.task.abort();
            }
            !is_its
        });
        Some(remote)
    }

    /// Follows the changes of the servers' tools from now on, in one task for each server, until [`McpTools::close`]. Has to
    /// be called within a Tokio runtime.
    pub fn follow(self: &Arc<Self>, observer: Arc<dyn ListObserver>) {
        let servers: Vec<_> = self.state().sources.iter().map(|source| source.remote.clone()).collect();
        for remote in servers {
            self.follow_remote(&remote, &observer);
        }
    }

    /// Follows the changes of one server's tools, like [`McpTools::follow`].
    pub fn follow_remote(self: &Arc<Self>, remote: &Remote, observer: &Arc<dyn ListObserver>) {
        let changes = remote.list_changes();
        let following = follow_server(Arc::downgrade(self), remote.clone(), changes, Arc::clone(observer));
        let follower = Follower { server: remote.name().clone(), task: tokio::spawn(following).abort_handle() };
        self.followers.lock().unwrap_or_else(PoisonError::into_inner).push(follower);
    }

    /// Takes the tools that a server listed last, if the list or its approval is another one than before, and reports what
    /// changed. Returns whether some of its tools wait for an approval.
    fn take_changes(&self, server: &Namespace, has_new_list: bool, observer: &dyn ListObserver) -> bool {
        let approved = observer.approval(server);
        let Some(refreshed) = self.refresh(server, has_new_list, approved) else { return self.has_waiting(server) };
        let RefreshReport { change, has_other_requests, notices } = refreshed;
        if !change.is_empty() || has_other_requests {
            self.revision.advance();
        }
        if !change.is_empty() {
            log::emit_list_changed(server.as_str(), &change);
            observer.tools_changed(server, &change);
        }
        if !notices.is_empty() {
            observer.library_changed(server, &notices);
        }
        self.has_waiting(server)
    }

    fn refresh(
        &self,
        server: &Namespace,
        has_new_list: bool,
        approved: Option<LockedApproval>,
    ) -> Option<RefreshReport> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let source = state.sources.iter_mut().find(|source| source.remote.name() == server)?;
        let has_new_approval = source.set_approval(approved);
        if !has_new_list && !has_new_approval {
            return None;
        }
        let before = source.library_notices.clone();
        let tools = source.tools(&self.actor_arguments);
        let requests = source.requests();
        let notices = source.library_notices.iter().filter(|notice| !before.contains(notice)).cloned().collect();
        let remote = source.remote.clone();
        let has_other_requests = state.replace_requests(&remote, requests);
        Some(RefreshReport { change: state.replace(&remote, tools), has_other_requests, notices })
    }

    /// Returns whether something of a server waits for an approval, or could not be listed.
    fn has_waiting(&self, server: &Namespace) -> bool {
        let state = self.state();
        let is_waiting = |known: &ServerTool| known.server.name() == server && !known.tool.is_approved();
        let is_unlisted = |source: &ServerSource| source.remote.name() == server && source.is_unlisted();
        let sources = state.sources.iter();
        let mut pinned = sources.filter(|source| source.pinned.is_some() && source.remote.name() == server);
        pinned.any(|source| source.remote.library().has_waiting() || state.tools.iter().any(is_waiting))
            || state.sources.iter().any(is_unlisted)
    }

    /// Returns the tools of servers that are left out, each with the reason.
    #[must_use]
    pub fn refused(&self) -> Vec<ToolNotice> {
        self.state().sources.iter().flat_map(|source| source.refused.iter().cloned()).collect()
    }

    /// Returns the tools of one server that are left out, each with the reason.
    #[must_use]
    pub fn refused_of(&self, server: &Namespace) -> Vec<ToolNotice> {
        let state = self.state();
        let source = state.sources.iter().find(|source| source.remote.name() == server);
        source.map(|source| source.refused.clone()).unwrap_or_default()
    }

    /// Returns the parts of servers' schemas that are not checked: see [`Remote::unchecked_schemas`].
    #[must_use]
    pub fn unchecked(&self) -> Vec<ToolNotice> {
        self.state().sources.iter().flat_map(|source| source.unchecked.iter().cloned()).collect()
    }

    /// Returns the resources and prompts of the servers, in the order in which they were added.
    #[must_use]
    pub fn libraries(&self) -> Vec<RemoteLibrary> {
        self.state().sources.iter().map(|source| source.remote.library()).collect()
    }

    /// Returns the comparisons of servers with their approvals, by the names of the servers.
    #[must_use]
    pub fn approval_checks(&self) -> Vec<(Namespace, ApprovalCheck)> {
        let check = |source: &ServerSource| Some((source.remote.name().clone(), source.pinned.as_ref()?.check.clone()));
        self.state().sources.iter().filter_map(check).collect()
    }

    /// Closes the connections to all servers, and ends the programs behind them.
    pub async fn close(&self) {
        self.stop_following();
        let servers: Vec<_> = self.state().sources.iter().map(|source| source.remote.clone()).collect();
        for server in servers {
            server.close().await;
        }
    }

    fn stop_following(&self) {
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.drain(..).for_each(|follower| follower.task.abort());
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn server_tool(&self, name: &str) -> Option<ServerTool> {
        self.state().tool(name).cloned()
    }
}

impl Drop for McpTools {
    fn drop(&mut self) {
        self.stop_following();
    }
}

impl State {
    fn tool(&self, name: &str) -> Option<&ServerTool> {
        match self.tools.binary_search_by(|known| known.tool.full_name().cmp(name)) {
            Ok(position) => self.tools.get(position),
            Err(_) => self.requests.iter().find(|known| known.tool.full_name() == name),
        }
    }

    /// Replaces the tools in place of requests to a server. One that is the same stays the same object. Returns whether any is
    /// another one.
    fn replace_requests(&mut self, server: &Remote, requests: Vec<Tool>) -> bool {
        let is_its = |known: &ServerTool| known.server.name() == server.name();
        let (old, mut all): (Vec<_>, Vec<_>) = std::mem::take(&mut self.requests).into_iter().partition(is_its);
        let mut has_others = old.len() != requests.len();
        for tool in requests {
            let before = old.iter().find(|known| is_same(&known.tool, &tool)).map(|known| Arc::clone(&known.tool));
            has_others |= before.is_none();
            all.push(ServerTool { tool: before.unwrap_or_else(|| Arc::new(tool)), server: server.clone() });
        }
        self.requests = all;
        has_others
    }

    /// Replaces the tools of a server. One that is the same stays the same object, so that calls of it go on.
    fn replace(&mut self, server: &Remote, tools: Vec<Tool>) -> ListChange {
        let (old, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.tools).into_iter().partition(|known| known.server.name() == server.name());
        let mut old: BTreeMap<_, _> =
            old.into_iter().map(|known| (known.tool.full_name().to_owned(), known.tool)).collect();
        self.tools = others;
        let mut change = ListChange::default();
        for tool in tools {
            let name = tool.full_name().to_owned();
            let before = old.remove(&name);
            self.removed.remove(&name);
            let tool = match before.as_ref().filter(|before| is_same(before, &tool)) {
                Some(before) => Arc::clone(before),
                None => {
                    change.add(name, before.as_deref(), &tool);
                    Arc::new(tool)
                }
            };
            self.tools.push(ServerTool { tool, server: server.clone() });
        }
        self.tools.sort_by(|a, b| a.tool.full_name().cmp(b.tool.full_name()));
        for (name, tool) in old {
            if self.removed.len() >= MAX_REMOVED {
                self.removed.pop_first();
            }
            let gone = Tool::clone(&tool).withheld(Some(removed_refusal(&tool)));
            self.removed.insert(name.clone(), Arc::new(gone));
            change.removed.push(name);
        }
        change
    }
}

impl ListChange {
    fn add(&mut self, name: String, before: Option<&Tool>, now: &Tool) {
        let was_callable = before.is_some_and(Tool::is_approved);
        let list = match (now.is_approved(), was_callable) {
            (true, true) => &mut self.changed,
            (true, false) => &mut self.callable,
            (false, _) => &mut self.waiting,
        };
        list.push(name);
    }
}

/// Returns whether clients and models see the same of two tools, and their calls end the same way.
fn is_same(one: &Tool, other: &Tool) -> bool {
    one.digest() == other.digest()
        && one.definition().mcp_members == other.definition().mcp_members
        && one.refusal() == other.refusal()
        && one.instructions() == other.instructions()
}

/// Takes the tools of a server whenever it has others, or other resources and prompts, and while some wait, whenever its
/// approval changed.
async fn follow_server(
    tools: Weak<McpTools>,
    remote: Remote,
    mut changes: ListChanges,
    observer: Arc<dyn ListObserver>,
) {
    let library = remote.library();
    let mut library_changes = library.changes();
    loop {
        let mut changed = pin!(changes.next());
        let mut has_new_list = true;
        loop {
            let Some(tools) = tools.upgrade() else { return };
            let name = remote.name().clone();
            let observer = Arc::clone(&observer);
            // It reads a file, and compares long texts.
            let taken = tokio::task::spawn_blocking(move || tools.take_changes(&name, has_new_list, &*observer));
            let is_waiting = taken.await.unwrap_or_default();
            has_new_list = false;
            tokio::select! {
                () = &mut changed => break,
                _ = library_changes.next() => {
                    // It may have changed before this, too. A failure is repeated later.
                    let _unavailable = library.refresh().await;
                    has_new_list = true;
                }
                () = tokio::time::sleep(APPROVAL_INTERVAL), if is_waiting => {
                    if !library.was_listed() {
                        let _unavailable = library.refresh().await;
                    }
                }
            }
        }
    }
}

impl ToolProvider for McpTools {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Mcp
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        self.state().tools.iter().map(|known| Arc::clone(&known.tool)).collect()
    }

    /// Finds a tool by its full name, also one that its server no longer has: calls of that say so.
    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        let state = self.state();
        state.tool(name).map(|known| &known.tool).or_else(|| state.removed.get(name)).cloned()
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            if let Err(error) = self.actor_arguments.check_call(&call) {
                return Ok(PendingCall::Validated(call, context).refuse(error));
            }
            let tool = call.tool().full_name().to_owned();
            match self.server_tool(&tool).filter(|known| Arc::ptr_eq(&known.tool, call.tool())) {
                Some(known) => Ok(known.server.call(call, context).await),
                None => {
                    let outcome = Err(CallError::replaced());
                    let metadata = Metadata::default();
                    Ok(CallResult { id: context.id, tool, outcome, metadata })
                }
            }
        })
    }

    fn changes(&self) -> Changes {
        self.revision.subscribe()
    }
}
