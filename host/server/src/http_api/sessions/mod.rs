//! Sessions with an agent as resources: their messages, and approvals that wait for a person.

pub(crate) mod approvals;
mod port;
pub(crate) mod store;

pub use approvals::{ApprovalAnswer, ApprovalQuestion, SessionApprovals};
pub use port::{
    NewSession, SavedSessionInfo, SessionAgent, SessionAgents, SessionCall, SessionError, SessionEvent, SessionEvents,
    SessionReply, WaitingCall,
};
