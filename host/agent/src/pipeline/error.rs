//! Errors of building a pipeline.

use crate::code::CodeToolsError;
use crate::registry::ToolError;
use crate::tool_search::SEARCH_TOOLS;

/// Errors returned by [`PipelineBuilder::build`](super::PipelineBuilder::build).
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// A skill lists a tool that is not registered.
    #[error("the skill '{skill}' names the tool '{tool}', which is not registered; register it or correct the name")]
    UnknownTool {
        /// The skill.
        skill: String,
        /// The name.
        tool: String,
    },
    /// A skill has both tools or knowledge for a model, and an implementation.
    #[error(
        "the skill '{0}' is implemented by a tool or program, so it cannot have tools or knowledge for a model; leave \
         one of them out"
    )]
    AmbiguousSkill(String),
    /// A skill is implemented by a program, and there is no interpreter.
    #[error("the skill '{0}' is implemented by a program, but the pipeline has no interpreter; give it one")]
    NoInterpreter(String),
    /// The program of a skill is too large.
    #[error("the program of the skill '{skill}' has {bytes} bytes; the maximum is {limit}")]
    LargeProgram {
        /// The skill.
        skill: String,
        /// The size of the program.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A channel lists a tool that is not registered.
    #[error(
        "the channel '{channel}' names the tool '{tool}', which is not registered; register it or correct the name"
    )]
    UnknownInChannel {
        /// The channel.
        channel: String,
        /// The name.
        tool: String,
    },
    /// The list of the agent's own tools has one that is not registered.
    #[error("the agent's automatic tools name '{0}', which is not registered; register it or correct the name")]
    UnknownAutoTool(String),
    /// The default allowlist has a tool that is not registered.
    #[error("the allowed tool '{0}' is not registered; register it or correct the name")]
    UnknownAllowed(String),
    /// A tool has a name that code mode needs.
    #[error("the tool name '{0}' is reserved for code mode; rename the tool")]
    CodeToolName(&'static str),
    /// The tools of code mode cannot be set up.
    #[error("cannot set up code mode")]
    Code(#[from] CodeToolsError),
    /// The list of pinned tools has one that is not registered.
    #[error("the pinned tool '{0}' is not registered; register it or correct the name")]
    UnknownPinned(String),
    /// A tool has the name of the search.
    #[error("the tool name '{SEARCH_TOOLS}' is reserved for tool search; rename the tool")]
    SearchNameTaken,
    /// A label for flows of data is of a tool that is not registered.
    #[error("the tool '{0}' with a label for flows is not registered; register it or correct the name")]
    UnknownLabelled(String),
    /// Code mode and tool search are both on.
    #[error("code mode already searches for tools; use either code mode or tool search")]
    CodeAndSearch,
    /// The definition of the search is not valid.
    #[error(transparent)]
    Search(#[from] ToolError),
    /// The system's random number generator failed.
    #[error("the system returned no random bytes for ids of records")]
    Random(#[from] getrandom::Error),
}
