//! The context of one call: its identity, its limits and its observer.

use std::sync::Arc;

use fumehood_core::event::{Level, Progress, RequestReport};
use fumehood_core::limits::Limits;
use tokio_util::sync::CancellationToken;

/// The invocation context of one call, which the guest can read. All of it comes from the host.
#[derive(Debug, Clone, Default)]
pub struct Invocation {
    /// The id of the call.
    pub id: String,
    /// The tool's name within its component.
    pub tool: String,
    /// The person or program on whose behalf the call is made.
    pub actor: Option<Arc<str>>,
    /// A snapshot of the agent's state, as JSON text. Only a tool that was granted it can read it.
    pub state: Option<Arc<str>>,
}

/// Limits, observer and cancellation of one call.
#[derive(Clone, Default)]
pub struct Terms {
    /// The limits of the call. They must have passed [`Limits::check`].
    pub limits: Limits,
    /// The observer of the call's log lines, progress and requests.
    pub observer: Option<Arc<dyn Observer>>,
    /// A token that ends the call with the kind `cancelled`, and with the metadata of its cost until then.
    pub cancelled: Option<CancellationToken>,
}

/// A receiver of the log lines, progress and requests of running calls.
///
/// All methods run on the threads that run guests, the first two while the guest waits: they must return at once and
/// never block.
pub trait Observer: Send + Sync {
    /// Receives a log line, already within the call's limit and printable.
    fn log(&self, call: &Invocation, level: Level, message: &str);
    /// Receives a progress update, already within the call's limit.
    fn progress(&self, call: &Invocation, progress: Progress);
    /// Receives the report of a request that has ended or was refused. All reports of a call arrive before it ends.
    fn request(&self, call: &Invocation, request: RequestReport) {
        let _ = (call, request);
    }
}
