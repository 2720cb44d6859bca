//! `[channels.NAME]`: ways in which people reach the agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A way in which people reach the agent, and what can be used there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChannelSection {
    /// Full names of the tools that can be used there, such as "calculator__add".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<String>,
    /// The skills that can be used there; their tools and knowledge can be too. If none is named, any skill can be, and of
    /// its tools those that are also in `tools`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) skills: Vec<String>,
}
