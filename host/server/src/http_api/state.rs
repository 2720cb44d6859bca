//! The state that all routes share.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use fumehood_core::call::content::{Content, is_large};
use fumehood_core::tool::ToolProvider;
use tokio::sync::Semaphore;
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::http_api::history::CallStore;
use crate::http_api::idempotency::Answers;
use crate::http_api::sessions::SessionAgents;
use crate::http_api::sessions::approvals::Approvals;
use crate::http_api::sessions::store::Sessions;
use crate::parse_queue::ParseQueue;
use crate::{Jobs, MemoryPermit, Tenant, TenantTools};

/// The identity of an API, and the source of calls that have ended.
///
/// ```
/// use fumehood_server::http_api::ApiOptions;
/// use fumehood_server::Jobs;
///
/// let options = ApiOptions {
///     name: "orders".to_owned(),
///     actor: Some("orders-service".into()),
///     jobs: Some(Jobs::default()),
///     ..ApiOptions::default()
/// };
/// // Without agents there are no sessions.
/// assert!(options.sessions.is_none());
/// ```
#[derive(Clone)]
pub struct ApiOptions {
    /// The name of the server in its document.
    pub name: String,
    /// The version of the server in its document.
    pub version: String,
    /// The actor of calls of clients that have none. Tools may be given it.
    pub actor: Option<Arc<str>>,
    /// The recorded calls; without them, only running ones can be listed.
    pub calls: Option<Arc<dyn CallStore>>,
    /// The jobs that calls become whose clients prefer that; without them, every call is waited for.
    pub jobs: Option<Jobs>,
    /// The agents of sessions; without them, there are no sessions.
    pub sessions: Option<Arc<dyn SessionAgents>>,
    /// The tools of sessions, for agents that check and record their calls themselves; without them, those of calls.
    pub session_tools: Option<TenantTools>,
}

impl fmt::Debug for ApiOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, version, actor, calls, jobs, sessions, session_tools } = self;
        let mut shown = f.debug_struct("ApiOptions");
        shown.field("name", name).field("version", version).field("actor", actor);
        shown.field("calls", &calls.is_some()).field("jobs", jobs).field("sessions", &sessions.is_some());
        shown.field("session_tools", &session_tools.is_some()).finish()
    }
}

impl Default for ApiOptions {
    /// Returns the defaults:
    ///
    /// - the name `fumehood` and the version of this crate
    /// - no actor
    /// - no recorded calls
    /// - no jobs
    /// - no sessions
    fn default() -> Self {
        let name = "fumehood".to_owned();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { name, version, actor: None, calls: None, jobs: None, sessions: None, session_tools: None }
    }
}

/// The state of the API.
pub(crate) struct ApiState {
    pub(crate) tools: TenantTools,
    pub(crate) options: ApiOptions,
    pub(crate) sessions: Sessions,
    pub(crate) approvals: Approvals,
    pub(crate) answers: Answers,
    /// The document of each tenant, by name.
    pub(crate) documents: Mutex<HashMap<Arc<str>, Document>>,
    /// Cancelled when running calls have to end.
    pub(crate) stopped: CancellationToken,
}

/// A document that was made for a tenant.
pub(crate) struct Document {
    pub(crate) tenant: Arc<Tenant>,
    /// The revision of the set of tools that it describes.
    pub(crate) revision: u64,
    pub(crate) text: Bytes,
}

/// The tenant that sent a request, and the tools that exist for it.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) tools: Arc<dyn ToolProvider>,
    /// The memory of the request, for calls that go on after it.
    pub(crate) memory: MemoryPermit,
    /// The queue for expensive work, and the turn of the tenant in it.
    pub(crate) queue: (ParseQueue, Arc<Semaphore>),
    /// True if the arguments are so expensive that they are parsed in the queue.
    pub(crate) parses_in_queue: bool,
}

impl Caller {
    /// Does some work on a result: on a large one in the queue, so that others do not wait for it.
    ///
    /// Returns `None` if the server ends.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        parts: &[Content],
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (queue, turn) = &self.queue;
        if is_large(parts) { queue.run(Arc::clone(turn), work).await } else { Some(work()) }
    }
}

impl ApiState {
    pub(crate) fn actor(&self, caller: &Caller) -> Option<Arc<str>> {
        caller.tenant.actor.clone().or_else(|| self.options.actor.clone())
    }
}
