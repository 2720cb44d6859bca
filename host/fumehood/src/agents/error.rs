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
    #[error("cannot show a tool of the host to a model")]
    Tool(#[from] IdentityError),
    /// The tools of the memory cannot be registered.
    #[error("cannot register the tools of the memory")]
    Memory(#[from] MemoryToolsError),
    /// The skill in use does not exist.
    #[error("unknown skill '{0}'; add it with `skill` or correct the name")]
    UnknownSkill(String),
    /// Both the agent and the skill in use have a schema of the answer.
    #[error("both the agent and the active skill have an output schema; leave one of them out")]
    TwoSchemas,
    /// The channel in use does not exist.
    #[error("unknown channel '{0}'; add it with `channel` or correct the name")]
    UnknownChannel(String),
    /// The list of the channel in use cannot be signed.
    #[error("cannot sign the list of the active channel")]
    Seal(#[from] SealError),
    /// The system gives no random numbers.
    #[error("the system returned no random bytes to sign the list of a channel; give the allowlists a key")]
    Random,
    /// The pipeline cannot be built.
    #[error("cannot set up the pipeline of calls")]
    Pipeline(#[from] PipelineError),
    /// The event log cannot be opened.
    #[error("cannot open the event log")]
    #[cfg(feature = "storage")]
    Log(#[from] fumehood_storage::OpenError),
    /// A part of the agent is missing, or the system has no random bytes for the id of its session.
    #[error("cannot build the agent")]
    Agent(#[from] BuildError),
}
