//! The context of a call: everything besides the tool and its arguments; and the token that cancels it.

use std::fmt;
use std::sync::Arc;

use super::client_requests::ClientRequests;
use super::history::CallHistory;
use super::job_id::JobId;
use super::observer::Observer;
use crate::call::event::Progress;
use crate::call::limits::Limits;
use crate::schema::gate::RepairPolicy;

/// The context of one call. All of it is set by the host's own code, never by a model or a tool.
///
/// ```
/// use fumehood_core::call::{Call, CallContext, SessionStep};
///
/// let step = SessionStep { session: "s1".into(), execution: "s1-e4".into(), number: 2, skill: None };
/// let context = CallContext { actor: Some("ann".into()), step: Some(step), ..CallContext::default() };
/// let call = Call { context, ..Call::new("notes__read", r#"{"title": "milk"}"#) };
/// // The host generates an id.
/// assert!(call.context.id.is_empty());
/// ```
#[derive(Clone, Default)]
pub struct CallContext {
    /// The id of the call in results and events, which a client or a model may have chosen: several calls may have the same.
    /// If empty, the host generates one.
    pub id: String,
    /// The id that no other call has, in records and among running calls. `None`: the first layer that needs one makes it.
    pub execution: Option<Arc<str>>,
    /// The actor on whose behalf the call runs; `None` for guests.
    pub actor: Option<Arc<str>>,
    /// A read-only snapshot of the agent's state, as JSON text. Only a tool that was granted it can read it.
    pub state: Option<Arc<str>>,
    /// Limits of this call, instead of those of the tool.
    pub limits: Option<Limits>,
    /// The observer of the call.
    pub observer: Option<Arc<dyn Observer>>,
    /// A token that stops the tool within milliseconds once it is cancelled. The result then has the kind `cancelled`.
    pub cancelled: Option<CancellationToken>,
    /// The step of the agent that makes the call; `None` for other callers.
    pub step: Option<SessionStep>,
    /// The name and version that a client of a server claims, `name/version`, printable.
    pub client: Option<String>,
    /// Members of `_meta` that the client of an MCP server sent with the call, for the server that runs it.
    pub client_meta: Option<Arc<serde_json::Map<String, serde_json::Value>>>,
    /// The calls of the same client's session so far, or of the same tenant without one; `None` if the caller has neither.
    pub history: Option<Arc<CallHistory>>,
    /// The calls of the program that makes the call; `None` for a direct call.
    pub program: Option<Arc<CallHistory>>,
    /// The id of the record that led to the call, such as that of the start of a program.
    pub cause: Option<Arc<str>>,
    /// The job that the call is, if it was one before it began; `None` for a call whose caller waits.
    pub job: Option<JobId>,
    /// The client of the call, which a server may ask for something meanwhile; `None` if it cannot be asked.
    pub client_requests: Option<Arc<dyn ClientRequests>>,
    /// The repairs that the arguments may get before they are refused; `None` refuses them as they are.
    pub repairs: Option<Arc<RepairPolicy>>,
    /// True if the call is a request of an MCP client for a resource or a prompt. Tools in place of such requests take no
    /// other calls.
    pub is_library_request: bool,
}

/// A token that cancels calls. Clones share their state, which is cancelled once and for all.
///
/// ```
/// use fumehood_core::call::CancellationToken;
///
/// let request = CancellationToken::new();
/// let one = request.child_token();
/// let other = request.child_token();
/// one.cancel();
/// assert!(one.is_cancelled() && !other.is_cancelled());
/// // The client has left: all calls of its request end.
/// request.cancel();
/// assert!(other.is_cancelled());
/// ```
#[derive(Debug, Clone, Default)]
pub struct CancellationToken(tokio_util::sync::CancellationToken);

impl CancellationToken {
    /// Creates a token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a token that is cancelled with this one, and can be cancelled alone.
    #[must_use]
    pub fn child_token(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Cancels the calls that have this token, a clone or a child of it.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Returns whether it is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it is cancelled.
    pub async fn cancelled(&self) {
        self.0.cancelled().await;
    }

    /// Returns the output of `future`, or `None` if the token is cancelled before. The future is dropped then.
    pub async fn run_until_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        self.0.run_until_cancelled(future).await
    }
}

/// A step of an agent's session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionStep {
    /// The id of the session.
    pub session: Arc<str>,
    /// The id of the execution of the loop.
    pub execution: Arc<str>,
    /// The number of the step in the execution, from 1.
    pub number: u32,
    /// The skill in use.
    pub skill: Option<Arc<str>>,
}

impl CallContext {
    /// Sends progress, or a partial result, to the observer if there is one.
    pub fn report(&self, progress: Progress) {
        if let Some(observer) = &self.observer {
            observer.progress(progress);
        }
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, execution, actor, state, limits, observer, cancelled, step, .. } = self;
        let Self { client, program, cause, job, repairs, .. } = self;
        let mut shown = f.debug_struct("CallContext");
        shown
            .field("id", id)
            .field("execution", execution)
            .field("actor", actor)
            .field("state", &state.is_some())
            .field("limits", limits);
        shown.field("observer", &observer.is_some()).field("cancelled", &cancelled.is_some());
        shown.field("step", step).field("client", client).field("program", &program.is_some()).field("cause", cause);
        shown.field("job", job).field("repairs", repairs);
        shown.finish_non_exhaustive()
    }
}
