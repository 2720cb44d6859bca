//! Records of a session's event log, and the port that stores them.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::boxed::BoxFuture;
use crate::time::Timestamp;

/// The kind of a [`Record`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// A session began.
    SessionStarted,
    /// A person or a program sent a message.
    UserMessage,
    /// A request was sent to a model.
    ModelAsked,
    /// A model answered.
    ModelAnswered,
    /// A request to a model failed.
    ModelFailed,
    /// A model's reply could not be parsed as a decision.
    DecisionFailed,
    /// A rule, a judge or a person allowed, changed or denied a call.
    Verdict,
    /// A call passed every check and started.
    ToolStarted,
    /// A running call reported progress or part of its result.
    ToolPartial,
    /// A started call ended, successfully or not.
    ToolFinished,
    /// The result of a call, after the hooks: as the model sees it, without what its tool excludes from records.
    ToolResult,
    /// A call was refused before it started.
    ToolRejected,
    /// Knowledge was read.
    KnowledgeUsed,
    /// A step of a session ended.
    StepFinished,
    /// A session ended.
    SessionFinished,
}

impl RecordKind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::SessionStarted,
        Self::UserMessage,
        Self::ModelAsked,
        Self::ModelAnswered,
        Self::ModelFailed,
        Self::DecisionFailed,
        Self::Verdict,
        Self::ToolStarted,
        Self::ToolPartial,
        Self::ToolFinished,
        Self::ToolResult,
        Self::ToolRejected,
        Self::KnowledgeUsed,
        Self::StepFinished,
        Self::SessionFinished,
    ];

    /// Returns the name for programs, the same as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStarted => "session_started",
            Self::UserMessage => "user_message",
            Self::ModelAsked => "model_asked",
            Self::ModelAnswered => "model_answered",
            Self::ModelFailed => "model_failed",
            Self::DecisionFailed => "decision_failed",
            Self::Verdict => "verdict",
            Self::ToolStarted => "tool_started",
            Self::ToolPartial => "tool_partial",
            Self::ToolFinished => "tool_finished",
            Self::ToolResult => "tool_result",
            Self::ToolRejected => "tool_rejected",
            Self::KnowledgeUsed => "knowledge_used",
            Self::StepFinished => "step_finished",
            Self::SessionFinished => "session_finished",
        }
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One record of a session. Its creator has already removed data that must not be stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The id of the record, never used twice.
    pub id: String,
    /// The id of the record that caused this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The id of the session.
    pub session: String,
    /// The time of the event.
    pub at: Timestamp,
    /// The kind of the record.
    pub kind: RecordKind,
    /// The actor on whose behalf the session runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The full name of the tool concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The digest of the tool's component, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The id of the call concerned, unique over all sessions. The id that a model gave the call is `model_call` in the
    /// body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The outcome in one word: `ok`, the name of an [`ErrorKind`](crate::call::error_kind::ErrorKind), or that of a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Further data, such as arguments, result, usage and reasons. Its shape depends on the kind.
    #[serde(default)]
    pub body: Value,
}

/// The condition for which [`Recorder::record`] waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Waits for room in the queue, like [`Self::Queued`]; the record may stay there until another one follows that is
    /// not deferred, or until the log is flushed or closed. For the first of several records that belong together, so
    /// that one write to disk stores all of them.
    Deferred,
    /// Waits for room in the queue. The record is lost if the process is killed, or the machine stops, within the next
    /// moments.
    Queued,
    /// Waits until the record is handed over to the operating system, or to the database server. It survives the death of
    /// the process; it is lost if the machine stops within the next moments.
    #[default]
    Written,
    /// Waits until the record is on disk.
    Durable,
}

/// The error of a recorder that could not store a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event log cannot record: {0}")]
pub struct RecordError(pub String);

/// The port for storing records.
///
/// ```
/// use std::sync::mpsc;
///
/// use fumehood_core::boxed::BoxFuture;
/// use fumehood_core::record::{Durability, Record, RecordError, Recorder};
///
/// /// Sends records to another thread, which writes them.
/// struct Queue(mpsc::Sender<Record>);
///
/// impl Recorder for Queue {
///     fn record(&self, record: Record, _: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
///         let sent = self.0.send(record).map_err(|_| RecordError("the thread has ended".to_owned()));
///         Box::pin(std::future::ready(sent))
///     }
/// }
/// ```
pub trait Recorder: Send + Sync {
    /// Stores one record after all previous ones.
    ///
    /// The record is accepted by the call itself, even if the future is dropped; awaiting it only waits for
    /// `durability`.
    fn record(&self, record: Record, durability: Durability) -> BoxFuture<'_, Result<(), RecordError>>;

    /// Returns whether records are stored. If not, callers need not create them.
    fn is_enabled(&self) -> bool {
        true
    }
}

/// A recorder that discards all records.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullRecorder;

impl Recorder for NullRecorder {
    fn record(&self, _: Record, _: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_enabled(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_has_one_name_in_json_and_text() {
        for kind in RecordKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), Value::from(kind.as_str()));
            assert_eq!(RecordKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(RecordKind::parse("Verdict"), None);
    }
}
