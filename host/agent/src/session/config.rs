//! The configuration of a session.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use crate::output_schema::OutputSchema;

/// The system prompt of a session. The driver adds the description of the tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Prompt {
    /// The role of the model, and how it should behave.
    pub agent: String,
    /// The description of the skill in use.
    pub skill: Option<String>,
}

impl Prompt {
    /// Returns both parts, separated by an empty line, or `None` if both are blank.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let parts = [Some(self.agent.as_str()), self.skill.as_deref()];
        let parts: Vec<&str> = parts.into_iter().flatten().filter(|part| !part.trim().is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }
}

/// The response to a call that is repeated too often.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRepetition {
    /// Ends the run.
    #[default]
    End,
    /// Rejects the call with the reason, and continues the run.
    Tell,
}

/// The limit on repeated calls: the same tool with the same arguments in consecutive replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// The number of consecutive replies. The call of the last one is not run.
    pub times: NonZeroU32,
    /// The response once the limit is reached.
    #[serde(default)]
    pub then: OnRepetition,
}

/// The configuration of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionConfig {
    /// The id of the session, and the prefix of all ids that it generates.
    pub id: String,
    /// The system prompt.
    pub prompt: Prompt,
    /// The limits of the session.
    pub budget: Budget,
    /// The maximum age of calls of earlier runs that are replayed to the model at the start of a run. Zero replays
    /// none. The default is 300 s.
    pub replay_freshness: Duration,
    /// The limit on repeated calls; `None` for no limit but the budget. The default ends the run at the third reply.
    pub repetition: Option<Repetition>,
    /// The number of consecutive failed batches that ends a run; `None` for no limit. The default is 3.
    pub failed_batches: Option<NonZeroU32>,
    /// True if the approver is asked for more turns before a run ends for want of them.
    pub ask_for_turns: bool,
    /// The maximum size of the images of a request, in bytes of base64. The newest stay. The default is 4 MiB.
    pub image_bytes: usize,
    /// The schema that the answer of each run must match; `None` for answers in prose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSchema>,
}

impl SessionConfig {
    /// Returns the system prompt: [`SessionConfig::prompt`], and what the answer must be.
    pub(super) fn system_prompt(&self, output: Option<&OutputSchema>) -> Option<String> {
        let output = output.map(OutputSchema::instruction);
        let parts: Vec<String> = self.prompt.text().into_iter().chain(output).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            id: String::new(),
            prompt: Prompt::default(),
            budget: Budget::default(),
            replay_freshness: Duration::from_secs(300),
            repetition: NonZeroU32::new(3).map(|times| Repetition { times, then: OnRepetition::End }),
            failed_batches: NonZeroU32::new(3),
            ask_for_turns: false,
            image_bytes: 4 << 20,
            output: None,
        }
    }
}
