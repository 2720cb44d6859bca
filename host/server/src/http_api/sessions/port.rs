//! The port for agents: a loop between a model and tools, one for each session.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CancellationToken;
use fumehood_core::time::Timestamp;
use fumehood_core::tool::ToolProvider;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::approvals::{ApprovalAnswer, ApprovalQuestion, SessionApprovals};

/// The parts of a session that its agent needs.
pub struct NewSession {
    /// The id of the session.
    pub id: String,
    /// The name of its tenant.
    pub tenant: Arc<str>,
    /// The actor of its calls.
    pub actor: Option<Arc<str>>,
    /// The tools that exist for its tenant, with the tenant's budgets.
    pub tools: Arc<dyn ToolProvider>,
    /// The persons who are asked about calls.
    pub approvals: SessionApprovals,
}

impl fmt::Debug for NewSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewSession").field("id", &self.id).field("actor", &self.actor).finish_non_exhaustive()
    }
}

/// The error of a session that cannot be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionError(pub String);

/// The port for agents.
pub trait SessionAgents: Send + Sync {
    /// Creates the agent of a session. The model is not asked yet.
    ///
    /// # Errors
    /// If the agent cannot be set up.
    fn create(&self, session: NewSession) -> Result<Box<dyn SessionAgent>, SessionError>;

    /// Returns the saved sessions of a tenant, the newest first and at most `max`. [`Self::create`] then makes the agent of
    /// one. There are none unless this is implemented.
    fn saved(&self, tenant: Arc<str>, max: usize) -> BoxFuture<'_, Result<Vec<SavedSessionInfo>, SessionError>> {
        let _ = (tenant, max);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// A session that was saved before the server began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedSessionInfo {
    /// The id of the session.
    pub id: String,
    /// The time of its first entry.
    pub created_at: Timestamp,
    /// Its texts: each message of the user, with the answer if there is one.
    pub conversation: Vec<(String, Option<String>)>,
}

/// A call of a session that waits for a person while nothing runs.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingCall {
    /// The id by which it is answered.
    pub id: String,
    /// The call, and the question about it.
    pub question: ApprovalQuestion,
    /// The time of the question.
    pub asked_at: Timestamp,
}

/// The agent of one session, which remembers its messages.
pub trait SessionAgent: Send {
    /// Answers a message. Once `cancelled` is, the run ends soon, and the session goes on with the next message.
    fn reply<'a>(
        &'a mut self,
        message: String,
        events: Arc<dyn SessionEvents>,
        cancelled: CancellationToken,
    ) -> BoxFuture<'a, SessionReply>;

    /// Goes on with the run that waited for approvals, or that was under way when the server ended. Returns `None` if there
    /// is none.
    fn resume<'a>(
        &'a mut self,
        events: Arc<dyn SessionEvents>,
        cancelled: CancellationToken,
    ) -> BoxFuture<'a, Option<SessionReply>> {
        let _ = (events, cancelled);
        Box::pin(std::future::ready(None))
    }

    /// Returns the calls that wait for a person while nothing runs.
    fn waiting_calls(&mut self) -> BoxFuture<'_, Result<Vec<WaitingCall>, SessionError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Answers one of [`Self::waiting_calls`]. Returns whether it still waited.
    fn answer_call(&mut self, id: String, answer: ApprovalAnswer) -> BoxFuture<'_, Result<bool, SessionError>> {
        let _ = (id, answer);
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Removes what is saved of the session, which is not used any more.
    fn remove(&mut self) -> BoxFuture<'_, Result<(), SessionError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The call that an event of a session is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionCall {
    /// The id that the model, or its provider, gave the call. Models reuse ids in later replies.
    pub id: String,
    /// The id of the execution, which no other call of the log has.
    pub execution: String,
    /// The full name of the tool.
    pub tool: String,
}

/// An event of a running reply. Arguments and parts of results are as they may be recorded.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A piece of text that the model writes. It may turn out to accompany calls.
    Text(String),
    /// A call began.
    CallStarted {
        /// The call.
        call: SessionCall,
        /// Its arguments; `None` where the policy of the tool excludes them from records.
        arguments: Option<Value>,
    },
    /// A running call reported progress, or parts of its result.
    CallProgress {
        /// The call.
        call: SessionCall,
        /// The completed fraction, from 0.0 to 1.0.
        fraction: Option<f64>,
        /// A description of the current activity.
        message: Option<String>,
        /// The parts of the result that are ready, each with its type.
        content: Vec<Value>,
    },
    /// A call ended, or was refused before it began.
    CallEnded {
        /// The call.
        call: SessionCall,
        /// `ok`, or the kind of its failure.
        status: String,
    },
}

/// An observer of a running reply. It must not block.
pub trait SessionEvents: Send + Sync {
    /// Takes an event.
    fn event(&self, event: SessionEvent);
}

/// The end of a reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct SessionReply {
    /// `answered`, or the way in which the run ended without an answer, such as `budget_exhausted`, `cancelled` or
    /// `waiting_for_approval`.
    pub status: String,
    /// The text for the user; empty if there is none.
    pub text: String,
    /// The ids of the calls that wait for a person, if the status is `waiting_for_approval`. Once they are answered, the session
    /// can be resumed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<String>,
    /// The reason of a run without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The number of times that the model was asked.
    pub steps: u64,
}
