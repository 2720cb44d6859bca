//! What is kept of a session: one record for everything that happened, in the order in which it happened.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::boxed::BoxFuture;
use crate::time::Timestamp;

/// What sort of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// A session began.
    SessionStarted,
    /// A person or a program said something.
    UserMessage,
    /// A model was asked.
    ModelAsked,
    /// A model answered.
    ModelAnswered,
    /// A model gave no answer.
    ModelFailed,
    /// A model's reply could not be taken for a decision.
    DecisionFailed,
    /// A rule, a judge or a person allowed, changed or denied a call.
    Verdict,
    /// A call passed every check and runs.
    ToolStarted,
    /// A running call has part of its result, or news.
    ToolPartial,
    /// A call ran and ended, well or badly.
    ToolFinished,
    /// What a call that ran gave, after the hooks: as the model sees it, without what its tool keeps out of records.
    ToolResult,
    /// A call was refused before it ran.
    ToolRejected,
    /// Knowledge was read.
    KnowledgeUsed,
    /// A step of a session ended.
    StepFinished,
    /// A session ended.
    SessionFinished,
}

impl RecordKind {
    /// All of them.
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

    /// The name that programs see: the same as in JSON.
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

    /// The kind of this name.
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

/// One thing that happened. Whoever makes it has taken out what must not be kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Identifies the record, and is never used twice.
    pub id: String,
    /// The record that this one follows from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Which session.
    pub session: String,
    /// When.
    pub at: Timestamp,
    /// What sort of thing.
    pub kind: RecordKind,
    /// On whose behalf the session runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The full name of the tool that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Which bytes that tool is: the digest of its component, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The id of the call that it is about: no other call of any session has it. The id that a model gave the call is
    /// `model_call` in the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// How it ended, in one word: `ok`, or the name of an [`crate::error_kind::ErrorKind`], or of a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The rest: arguments, result, usage, reasons. Its shape depends on the kind.
    #[serde(default)]
    pub body: Value,
}

/// How long whoever records wants to wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Until there is room in the queue, like [`Self::Queued`]; the record may stay there until another one follows that is
    /// not deferred, or until the log is flushed or closed. For the first of several records that belong together, so that
    /// they take one write to disk and not several.
    Deferred,
    /// Until there is room in the queue: the record is lost if the machine stops within the next moments.
    #[default]
    Queued,
    /// Until it is on disk.
    Durable,
}

/// Why a record was not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event log does not take records: {0}")]
pub struct RecordError(pub String);

/// The port through which records are kept.
pub trait Recorder: Send + Sync {
    /// Takes one record, after all that were taken before it. A record is taken once this is called, whether or not
    /// the future is awaited to its end; only the waiting is left out.
    fn record(&self, record: Record, durability: Durability) -> BoxFuture<'_, Result<(), RecordError>>;

    /// Whether it does anything with records. Those that nobody keeps need not be made.
    fn keeps(&self) -> bool {
        true
    }
}

/// Keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullRecorder;

impl Recorder for NullRecorder {
    fn record(&self, _: Record, _: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn keeps(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_written_the_same_everywhere() {
        for kind in RecordKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), Value::from(kind.as_str()));
            assert_eq!(RecordKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(RecordKind::parse("Verdict"), None);
    }
}
