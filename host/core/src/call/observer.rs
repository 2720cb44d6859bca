//! The port for the log lines, progress, requests and cost of one running call.

use std::time::Duration;

use crate::call::event::{Level, Progress};
use crate::call::result::RequestReport;

/// The cost of a running call so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct Usage {
    /// Fuel that the guest used.
    pub fuel: u64,
    /// Peak size of its memories and tables, in bytes.
    pub peak_memory: usize,
}

/// A receiver of the log lines, progress, requests and cost of one call.
///
/// The methods run on the threads that run tools, the first two while the tool waits: they must return at once and
/// never block. Each ignores what it receives unless it is implemented.
///
/// ```
/// use std::sync::mpsc;
///
/// use fumehood_core::call::Observer;
/// use fumehood_core::call::event::Level;
///
/// /// Sends the log lines of a call to another thread, which never waits.
/// struct Lines(mpsc::Sender<String>);
///
/// impl Observer for Lines {
///     fn log(&self, level: Level, message: &str) {
///         // Nobody may be reading any more.
///         let _ = self.0.send(format!("{}: {message}", level.as_str()));
///     }
/// }
///
/// let (sender, receiver) = mpsc::channel();
/// Lines(sender).log(Level::Warn, "the page has no title");
/// assert_eq!(receiver.recv()?, "warn: the page has no title");
/// # Ok::<(), mpsc::RecvError>(())
/// ```
pub trait Observer: Send + Sync {
    /// Receives a log line, already within the call's limit and printable.
    fn log(&self, level: Level, message: &str) {
        let _ = (level, message);
    }

    /// Receives a progress report, already within the call's limit.
    fn progress(&self, progress: Progress) {
        let _ = progress;
    }

    /// Receives the moment at which the call has a place among the running ones, with the deadline from there on.
    fn admitted(&self, deadline: Duration) {
        let _ = deadline;
    }

    /// Receives the cost so far, about once a millisecond while the guest runs, and a few times a second from a worker process.
    fn usage(&self, usage: Usage) {
        let _ = usage;
    }

    /// Receives the report of a request that has ended or was refused. All reports of a call arrive before it ends.
    fn request(&self, request: RequestReport) {
        let _ = request;
    }
}
