//! Errors of gateways and workers before they serve.

/// Errors of joining a cell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// The name cannot be part of a subject.
    #[error("invalid name `{0}` in a cell; expected at most 64 letters, digits, `-` and `_`")]
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
    #[error("jobs need JetStream of NATS 2.10 or later, with file storage: {0}")]
    JetStream(String),
    /// No such worker announces itself.
    #[error(
        "the worker `{0}` does not announce itself to this gateway; check its name, and that its configuration has \
         this gateway"
    )]
    NoSuchWorker(String),
    /// A worker that was told to end is still there.
    #[error("the worker `{worker}` still runs {running} calls; it exits after the last call")]
    StillRunning {
        /// The worker.
        worker: String,
        /// The number of calls that run.
        running: u32,
    },
    /// The system gave no random bytes.
    #[error("the system returned no random bytes for the id of this run")]
    Random(#[source] getrandom::Error),
}
