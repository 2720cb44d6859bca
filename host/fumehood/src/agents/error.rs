//! Errors of building an agent over the tools of a host.

use fumehood_agent::agent::BuildError;
use fumehood_agent::allowlist::SealError;
use fumehood_agent::identity::IdentityError;
use fumehood_agent::memory::MemoryToolsError;
use fumehood_agent::pipeline::PipelineError;

/// Errors of [`AgentBuilder::build`](crate::AgentBuilder::build).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A tool of the host cannot be presented to a model.
    #[error("a tool of the host cannot be shown to a model")]
    Tool(#[from] IdentityError),
    /// The tools of the memory cannot be registered.
    #[error("the tools of the memory cannot be registered")]
    Memory(#[from] MemoryToolsError),
    /// The skill in use does not exist.
    #[error("the skill '{0}' is to be used, and there is none of that name; add it with `skill` or correct the name")]
    UnknownSkill(String),
    /// Both the agent and the skill in use have a schema of the answer.
    #[error("both the agent and the skill in use have a schema of the answer; leave one of them out")]
    TwoSchemas,
    /// The channel in use does not exist.
    #[error(
        "the channel '{0}' is to be used, and there is none of that name; add it with `channel` or correct the name"
    )]
    UnknownChannel(String),
    /// The list of the channel in use cannot be signed.
    #[error("the list of the channel in use cannot be signed")]
    Seal(#[from] SealError),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers to sign the list of a channel with; give the allowlists a key")]
    Random,
    /// The pipeline cannot be built.
    #[error("the path of a call cannot be set up")]
    Pipeline(#[from] PipelineError),
    /// The event log cannot be opened.
    #[error("the event log cannot be opened")]
    #[cfg(feature = "storage")]
    Log(#[from] fumehood_storage::OpenError),
    /// A part of the agent is missing, or the system has no random bytes for the id of its session.
    #[error("the agent cannot be put together")]
    Agent(#[from] BuildError),
}
