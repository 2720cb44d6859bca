//! The port for the log lines, progress and requests of one running call.

use crate::call::event::{Level, Progress};
use crate::call::result::RequestReport;

/// A receiver of the log lines, progress and requests of one call.
///
/// The methods run on the threads that run tools, the first two while the tool waits: they must return at once and
/// never block. Each ignores what it receives unless it is implemented.
pub trait Observer: Send + Sync {
    /// Receives a log line, already within the call's limit and printable.
    fn log(&self, level: Level, message: &str) {
        let _ = (level, message);
    }

    /// Receives a progress report, already within the call's limit.
    fn progress(&self, progress: Progress) {
        let _ = progress;
    }

    /// Receives the report of a request that has ended or was refused. All reports of a call arrive before it ends.
    fn request(&self, request: RequestReport) {
        let _ = request;
    }
}
