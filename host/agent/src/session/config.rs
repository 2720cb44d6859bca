//! What a session is set up with.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::budget::Budget;

/// What the model is told before everything else. Which tools there are is told by the driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Prompt {
    /// Who the model is and how it should behave.
    pub agent: String,
    /// What the skill in use is for.
    pub skill: Option<String>,
}

impl Prompt {
    /// Both parts, with an empty line between them; none if there is nothing to say.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let parts = [Some(self.agent.as_str()), self.skill.as_deref()];
        let parts: Vec<&str> = parts.into_iter().flatten().filter(|part| !part.trim().is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }
}

/// What to do about a call that is asked for again and again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRepetition {
    /// End the run.
    #[default]
    End,
    /// Refuse the call, say why, and go on.
    Tell,
}

/// When a call counts as asked for again and again: the same tool with the same arguments in so many replies in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// In how many replies. The call of the last of them is not run.
    pub times: NonZeroU32,
    /// What to do then.
    #[serde(default)]
    pub then: OnRepetition,
}

/// What a session is set up with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionConfig {
    /// Identifies the session. What it makes up ids for begins with it.
    pub id: String,
    /// What the model is told first.
    pub prompt: Prompt,
    /// How much the session may use.
    pub budget: Budget,
    /// Calls of earlier runs that ended no longer ago than this are told to the model again when a run begins. Zero:
    /// none are.
    pub replay_freshness: Duration,
    /// `None`: the same call may be asked for as often as the budget allows.
    pub repetition: Option<Repetition>,
    /// After how many failed batches in a row a run ends; `None`: never.
    pub failed_batches: Option<NonZeroU32>,
    /// Whether to ask a person for more turns before ending a run for want of them.
    pub ask_for_turns: bool,
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
        }
    }
}
