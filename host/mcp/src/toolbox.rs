//! The port for the served tools.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::Call;
use fumehood_core::definition::ToolDefinition;
use fumehood_core::event::{Level, Progress};
use fumehood_core::result::CallResult;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A tool and its presentation to clients.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The full name: `component__tool`.
    pub name: String,
    /// The definition, validated.
    pub definition: ToolDefinition,
    /// True if clients see it. A tool that is withheld keeps its name, and a call of it fails with the reason.
    pub is_listed: bool,
    /// The powers of the tool beyond computing, one phrase for each, such as `read files in /docs`. They become part of
    /// the server's instructions; all tools of one component have the same.
    pub may: Vec<String>,
}

/// An observer of a running call. Both methods run while the guest waits: they must return at once and never block.
pub trait Watcher: Send + Sync {
    /// Receives a log line, already within the call's cap and printable.
    fn log(&self, level: Level, message: &str);
    /// Receives a progress report, already within the call's cap.
    fn progress(&self, progress: Progress);
}

/// A call with its observer and its cancellation token.
pub struct Request {
    /// The call. Its tool is the full name of a [`Listing`]; its arguments are not validated yet.
    pub call: Call,
    /// The observer of the call.
    pub watcher: Option<Arc<dyn Watcher>>,
    /// Once this is cancelled, the guest must stop within milliseconds.
    pub cancelled: CancellationToken,
    /// The name and version that the client claims, `name/version`, printable and at most 128 bytes.
    pub client: Option<String>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").finish_non_exhaustive()
    }
}

/// A set of tools that can be listed and called, and may change. It never contains anything that grants power.
pub trait Toolbox: Send + Sync {
    /// Returns all tools, sorted by their names. Called again after every change.
    fn list(&self) -> Vec<Listing>;

    /// Calls a tool. Every outcome is returned as a value. Dropping the future stops the guest too.
    fn call(&self, request: Request) -> BoxFuture<'_, CallResult>;

    /// Returns a receiver of a revision number, which differs after every change of the set.
    fn changes(&self) -> watch::Receiver<u64>;
}
