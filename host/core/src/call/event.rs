//! Events for observers. A call emits [`Event::Started`] when it passes the gate, and every call, even a refused one,
//! emits [`Event::Finished`] when it ends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::call::content::Content;
use crate::call::result::CallResult;
pub use crate::call::result::RequestReport;
use crate::digest::Digest;
use crate::text::untrusted::PrintableText;

/// The severity of a log line of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Single steps.
    Trace,
    /// Details for finding a fault.
    Debug,
    /// General information.
    Info,
    /// A failure after which the call continues.
    Warn,
    /// A failure after which the call will fail.
    Error,
}

impl Level {
    /// Returns the name shown to people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// A progress report of a running call.
#[derive(Debug, Clone, Serialize)]
pub struct Progress {
    /// The completed fraction, 0.0 to 1.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// A description of the current activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<PrintableText>,
    /// Parts of the result that are ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partial: Vec<Content>,
}

/// An event of a host.
///
/// ```
/// use fumehood_core::call::event::Event;
///
/// fn describe(event: &Event) -> Option<String> {
///     match event {
///         Event::Started { id, tool, .. } => Some(format!("{id}: started {tool}")),
///         Event::Finished { result } => Some(format!("{}: {}", result.id, if result.is_ok() { "ok" } else { "failed" })),
///         // Later releases may have other events.
///         _ => None,
///     }
/// }
///
/// let started = Event::Started { id: "7".to_owned(), tool: "calculator__add".to_owned(), actor: None };
/// assert_eq!(describe(&started).as_deref(), Some("7: started calculator__add"));
/// // In JSON, the name of the event is one of its members.
/// assert_eq!(serde_json::to_value(&started)?["event"], "started");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A component was loaded and its tools can be called.
    Loaded {
        /// The name of the component in this host.
        component: String,
        /// The digest of the component.
        digest: Digest,
        /// The names of the tools.
        tools: Vec<String>,
    },
    /// A call passed the gate and is sent to the sandbox.
    Started {
        /// The id of the call.
        id: String,
        /// The full name of the tool.
        tool: String,
        /// The actor on whose behalf the call runs.
        #[serde(skip_serializing_if = "Option::is_none")]
        actor: Option<Arc<str>>,
    },
    /// A running call wrote a log line.
    Log {
        /// The id of the call.
        id: String,
        /// The severity.
        level: Level,
        /// The text of the line.
        message: PrintableText,
    },
    /// A running call reported progress.
    Progress {
        /// The id of the call.
        id: String,
        /// The report.
        #[serde(flatten)]
        progress: Progress,
    },
    /// An HTTP request or a TCP connection of a running call ended, or was refused.
    Request {
        /// The id of the call.
        id: String,
        /// The outcome of the request.
        #[serde(flatten)]
        request: RequestReport,
    },
    /// A call ended: it was refused, stopped, failed or succeeded.
    Finished {
        /// The result of the call.
        result: Arc<CallResult>,
    },
}
