//! What a person watching a stream of calls is told: fewer things than are recorded.

use fumehood_core::error_kind::ErrorKind;
use fumehood_core::record::{Record, RecordKind};

/// One thing to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEvent {
    /// A tool runs.
    ToolStarted,
    /// It ended well.
    ToolFinished,
    /// It ended badly, or was refused.
    ToolFailed,
}

impl StreamEvent {
    /// What a record is worth telling. A model that calls a tool which is not there, or not for it, is told so
    /// itself; nobody else is.
    #[must_use]
    pub fn of(record: &Record) -> Option<Self> {
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

    /// The name that programs see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolStarted => "tool_started",
            Self::ToolFinished => "tool_finished",
            Self::ToolFailed => "tool_failed",
        }
    }
}
