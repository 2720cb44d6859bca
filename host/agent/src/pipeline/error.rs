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
        "the skill '{0}' has tools or knowledge for a model, and is implemented by a tool or a program, so that no model runs it; leave one of the two out"
    )]
    AmbiguousSkill(String),
    /// A skill is implemented by a program, and there is no interpreter.
    #[error(
        "the skill '{0}' is implemented by a program, and there is no interpreter to run it; give the pipeline one"
    )]
    NoInterpreter(String),
    /// The program of a skill is too large.
    #[error("the program of the skill '{skill}' has {bytes} bytes, where at most {limit} are accepted; shorten it")]
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
    #[error("the agent's own tools name '{0}', which is not registered; register it or correct the name")]
    UnknownAutoTool(String),
    /// The default allowlist has a tool that is not registered.
    #[error("the tool '{0}' is to be allowed, and is not registered; register it or correct the name")]
    UnknownAllowed(String),
    /// A tool has a name that code mode needs.
    #[error("a tool is named '{0}', which is a tool of code mode; give it another name")]
    CodeToolName(&'static str),
    /// The tools of code mode cannot be set up.
    #[error("code mode cannot be set up")]
    Code(#[from] CodeToolsError),
    /// The list of pinned tools has one that is not registered.
    #[error("the tool '{0}' is pinned, and is not registered; register it or correct the name")]
    UnknownPinned(String),
    /// A tool has the name of the search.
    #[error("tool search needs the name '{SEARCH_TOOLS}', which a registered tool has; give that another name")]
    SearchNameTaken,
    /// A label for flows of data is of a tool that is not registered.
    #[error("the tool '{0}' is labelled for flows, and is not registered; register it or correct the name")]
    UnknownLabelled(String),
    /// Code mode and tool search are both on.
    #[error("code mode has a search for tools of its own; choose either it or tool search")]
    CodeAndSearch,
    /// The definition of the search is not valid.
    #[error(transparent)]
    Search(#[from] ToolError),
    /// The system's random number generator failed.
    #[error("the system gives no random numbers to name records with")]
    Random(#[from] getrandom::Error),
}
