//! Events for a person who watches a stream of calls: fewer than are recorded.

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::record::{Record, RecordKind};

/// An event of a call, to be shown to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEvent {
    /// A tool started.
    ToolStarted,
    /// A tool succeeded.
    ToolFinished,
    /// A tool failed, or its call was refused.
    ToolFailed,
}

impl StreamEvent {
    /// Converts a record to the event that it is shown as, if it is shown.
    ///
    /// Calls of tools that do not exist or are not allowed are no events: only the model gets that error.
    #[must_use]
    pub fn from_record(record: &Record) -> Option<Self> {
        let status = record.status.as_deref().unwrap_or_default();
        match record.kind {
            RecordKind::ToolStarted => Some(Self::ToolStarted),
            RecordKind::ToolFinished if status == "ok" => Some(Self::ToolFinished),
            RecordKind::ToolFinished => Some(Self::ToolFailed),
            RecordKind::ToolRejected => {
                let silent = [ErrorKind::UnknownTool, ErrorKind::NotAllowed].map(ErrorKind::as_str);
                (!silent.contains(&status)).then_some(Self::ToolFailed)
            }
            _ => None,
        }
    }

    /// Returns the name of the event in machine-readable output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolStarted => "tool_started",
            Self::ToolFinished => "tool_finished",
            Self::ToolFailed => "tool_failed",
        }
    }
}
