//! The settings of one run that depend on its scope: those of the skill and of the channel in use.

use std::time::Duration;

use fumehood_core::chat::ToolIntent;
use serde::{Deserialize, Serialize};

use crate::output_schema::OutputSchema;

/// The settings of one run. They are part of the input that begins it, so that a saved session keeps them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSettings {
    /// The call that is made instead of asking a model, for a skill that is implemented by a tool or a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<SkillCall>,
    /// The schema of the answer. It takes precedence over that of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSchema>,
    /// The maximum age of calls that are replayed. It takes precedence over that of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_freshness: Option<Duration>,
}

impl RunSettings {
    /// Returns whether nothing differs from the settings of the session.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The call of a skill that no model runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillCall {
    /// The call. Its id is empty.
    pub intent: ToolIntent,
    /// The reason that it cannot be made, such as a message that does not fit its tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
