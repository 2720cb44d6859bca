//! The port for agents: a loop between a model and tools, one for each session.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CancellationToken;
use fumehood_core::tool::ToolProvider;
use serde::Serialize;
use utoipa::ToSchema;

use super::approvals::SessionApprovals;

/// The parts of a new session that its agent needs.
pub struct NewSession {
    /// The id of the session.
    pub id: String,
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
}

/// An event of a running reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A piece of text that the model writes. It may turn out to accompany calls.
    Text(String),
    /// A call began.
    CallStarted {
        /// The full name of the tool.
        tool: String,
    },
    /// A call ended, or was refused.
    CallEnded {
        /// The full name of the tool.
        tool: String,
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
    /// `answered`, or the way in which the run ended without an answer, such as `budget_exhausted` or `cancelled`.
    pub status: String,
    /// The text for the user; empty if there is none.
    pub text: String,
    /// The reason of a run without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The number of times that the model was asked.
    pub steps: u64,
}
