//! Errors of gateways and workers before they serve.

/// Errors of joining a cell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// The name cannot be part of a subject.
    #[error("`{0}` cannot be a name in a cell; take at most 64 letters, digits, `-` and `_`")]
    Name(String),
    /// The server cannot be reached, or does not accept this node.
    #[error("cannot join the cell at {url}")]
    Connect {
        /// The URL.
        url: String,
        /// The cause.
        #[source]
        source: async_nats::ConnectError,
    },
    /// The connection was closed.
    #[error("the connection to NATS was closed")]
    Closed,
    /// The server has no JetStream, or no room in it.
    #[error("jobs need JetStream of NATS 2.10 or later, with room for files: {0}")]
    JetStream(String),
    /// No such worker announces itself.
    #[error(
        "no worker `{0}` of the cell announces itself to this gateway; look at its name, and whether it knows this gateway"
    )]
    NoSuchWorker(String),
    /// A worker that was told to end is still there.
    #[error("the worker `{worker}` still runs {running} calls; it ends with the last of them")]
    StillRunning {
        /// The worker.
        worker: String,
        /// The number of calls that run.
        running: u32,
    },
    /// The system gave no random bytes.
    #[error("the system gave no random bytes to name this run with")]
    Random(#[source] getrandom::Error),
}
