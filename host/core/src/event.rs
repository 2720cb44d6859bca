//! What happened, for whoever watches: every call leaves a started or refused event, and one that says how it ended.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::content::Content;
use crate::digest::Digest;
pub use crate::request_report::RequestReport;
use crate::result::CallResult;
use crate::untrusted::PrintableText;

/// How much a log line of a guest matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Every step.
    Trace,
    /// What helps to find a fault.
    Debug,
    /// What a person may want to know.
    Info,
    /// Something went wrong and the call goes on.
    Warn,
    /// Something went wrong and the call will fail.
    Error,
}

impl Level {
    /// The name that people see.
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

/// News of a call that is still running.
#[derive(Debug, Clone, Serialize)]
pub struct Progress {
    /// How much is done, 0.0 to 1.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// What is being done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<PrintableText>,
    /// Parts of the result that are ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partial: Vec<Content>,
}

/// One thing that happened.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A component was loaded and its tools can be called.
    Loaded {
        /// What the component is called in this host.
        component: String,
        /// Which bytes.
        digest: Digest,
        /// Its tools.
        tools: Vec<String>,
    },
    /// A call passed the gate and goes to the sandbox.
    Started {
        /// The id of the call.
        id: String,
        /// The full name of the tool.
        tool: String,
        /// On whose behalf.
        #[serde(skip_serializing_if = "Option::is_none")]
        actor: Option<Arc<str>>,
    },
    /// A running call wrote a log line.
    Log {
        /// The id of the call.
        id: String,
        /// How much the line matters.
        level: Level,
        /// The line.
        message: PrintableText,
    },
    /// A running call reported progress.
    Progress {
        /// The id of the call.
        id: String,
        /// The news.
        #[serde(flatten)]
        progress: Progress,
    },
    /// A running call made an HTTP request, and that is over; or it tried to and was refused.
    Request {
        /// The id of the call.
        id: String,
        /// How it went.
        #[serde(flatten)]
        request: RequestReport,
    },
    /// A call ended: it was refused, stopped, failed or succeeded.
    Finished {
        /// How.
        result: Arc<CallResult>,
    },
}
