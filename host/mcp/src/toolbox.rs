//! The port behind which the served tools stand.

use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::Call;
use fumehood_core::definition::ToolDefinition;
use fumehood_core::event::{Level, Progress};
use fumehood_core::result::CallResult;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// One tool, as it is offered.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Its full name: `component__tool`.
    pub name: String,
    /// What it says about itself, checked.
    pub definition: ToolDefinition,
    /// Whether clients are told of it. One that is withheld keeps its name, and whoever calls it hears why it cannot be
    /// called.
    pub is_listed: bool,
    /// What it may do beyond computing, one phrase for each power, such as `read files in /docs`. In what the server says
    /// of itself; those of one component are the same.
    pub may: Vec<String>,
}

/// Hears what a running call says. Both methods run while the guest waits: they must return at once and never block.
pub trait Watcher: Send + Sync {
    /// A log line, already within the call's cap and printable.
    fn log(&self, level: Level, message: &str);
    /// News of the call, already within its cap.
    fn progress(&self, progress: Progress);
}

/// One call, and who hears of it.
pub struct Request {
    /// The call. Its tool is the full name of a [`Listing`]; its arguments were not checked.
    pub call: Call,
    /// Who hears what the tool says while it runs.
    pub watcher: Option<Arc<dyn Watcher>>,
    /// Once this is cancelled, the guest must stop within milliseconds.
    pub cancelled: CancellationToken,
    /// The client's own name and version, `name/version`, printable and at most 128 bytes. It is the client's word.
    pub client: Option<String>,
}

/// A set of tools that can be listed and called, and may change. Nothing that grants power is ever in it.
pub trait Toolbox: Send + Sync {
    /// All tools, in the order of their names. Asked again after every change.
    fn list(&self) -> Vec<Listing>;

    /// Calls a tool. Whatever happens is a value. Dropping the future stops the guest too.
    fn call(&self, request: Request) -> BoxFuture<'_, CallResult>;

    /// A number that is another one whenever the set has changed.
    fn changes(&self) -> watch::Receiver<u64>;
}
