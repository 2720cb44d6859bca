//! What a guest is told about its call, and who hears what it says.

use std::sync::Arc;

use fumehood_core::event::{Level, Progress, RequestReport};
use fumehood_core::limits::Limits;
use tokio_util::sync::CancellationToken;

/// What a guest is told about the call that it serves. All of it comes from the host.
#[derive(Debug, Clone, Default)]
pub struct Invocation {
    /// The id of the call.
    pub id: String,
    /// The tool's name within its component.
    pub tool: String,
    /// On whose behalf.
    pub actor: Option<Arc<str>>,
    /// A snapshot of the agent's state, as JSON text. It is shown only to a tool that was granted it.
    pub state: Option<Arc<str>>,
}

/// Under what terms a call runs.
#[derive(Clone, Default)]
pub struct Terms {
    /// How far it may go. They have passed [`Limits::check`].
    pub limits: Limits,
    /// Who hears what it says.
    pub observer: Option<Arc<dyn Observer>>,
    /// Ends it as `cancelled`, with the account of what it cost until then.
    pub cancelled: Option<CancellationToken>,
}

/// Hears what a running call says.
///
/// All methods run on the threads that run guests, the first two while the guest waits: they must return at once and
/// never block.
pub trait Observer: Send + Sync {
    /// A log line, already within the call's cap and printable.
    fn log(&self, call: &Invocation, level: Level, message: &str);
    /// News of the call, already within its cap.
    fn progress(&self, call: &Invocation, progress: Progress);
    /// A request that it made is over, or was refused. All of them are told of before the call ends.
    fn request(&self, call: &Invocation, request: RequestReport) {
        let _ = (call, request);
    }
}
