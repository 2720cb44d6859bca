//! Saved sessions: the inputs of a session as entries, and a session that is made of them again.

use std::collections::HashMap;
use std::sync::Arc;

use fumehood_core::chat::Reply;
use fumehood_core::saved_session::SessionEntry;
use fumehood_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::compaction::Compaction;
use super::config::SessionConfig;
use super::input::{Action, Input, RecordedInput, StepError};
use super::machine::Session;
use crate::drivers::batch::{Entry, ToolReport};
use crate::drivers::driver::Driver;
use crate::drivers::reply_part::ReplyPart;
use crate::program_record::{ProgramEvent, ProgramRecord};

/// The version of the entries. Entries of another version are not read.
pub(crate) const SAVED_VERSION: u32 = 1;

/// The content of the first entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SavedHead {
    pub(crate) version: u32,
    pub(crate) config: SessionConfig,
    pub(crate) driver: String,
    pub(crate) actor: Option<String>,
    pub(crate) state: Option<String>,
    /// The settings of the program that saves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) settings: Option<String>,
}

/// The content of each later entry: an input, or events of a program.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<Input>,
    /// The parts of the reply that the input has, whose text is left out there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reply: Option<Vec<ReplyPart>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<SavedProgram>,
    /// The agent's state, in sessions of earlier releases whose hooks changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
    /// True if it is in memory alone. On disk, nothing else is here then.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) is_withheld: bool,
    /// A random name of the program that wrote it.
    pub(crate) writer: String,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Events of the program that a call of the model runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SavedProgram {
    pub(crate) call: String,
    pub(crate) events: Vec<ProgramEvent>,
}

/// An entry behind the first one: an input, or events of a program.
#[derive(Debug, Clone)]
enum SavedStep {
    Input(Box<RecordedInput>, Option<Vec<ReplyPart>>),
    Program(SavedProgram),
}

/// A session as it was saved: its configuration and everything that came into it.
#[derive(Debug, Clone)]
pub struct SavedSession {
    config: SessionConfig,
    driver: String,
    actor: Option<String>,
    state: Option<String>,
    settings: Option<String>,
    steps: Vec<SavedStep>,
    /// True if a part of it is not on disk.
    is_withheld: bool,
    /// The time of the last entry but the first.
    last: Option<Timestamp>,
}

/// Errors of reading a saved session, and of resuming one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SavedSessionError {
    /// There are no entries.
    #[error("unknown session; `sessions list` lists the saved sessions")]
    Missing,
    /// It was saved by a release with another format.
    #[error("it has format version {found}, but this release reads version {SAVED_VERSION}; use a matching release")]
    Version {
        /// The version.
        found: u64,
    },
    /// An entry is missing or malformed.
    #[error("its entry {number} cannot be read: {reason}")]
    Entry {
        /// The number of the entry.
        number: u64,
        /// The reason.
        reason: String,
    },
    /// An entry was in the memory of another process alone.
    #[error(
        "its entries from {number} on were not saved, because it called a tool with `persist = \"nothing\"`; start \
         another session"
    )]
    Withheld {
        /// The number of the entry.
        number: u64,
    },
    /// The entries do not follow from each other.
    #[error("its entries are inconsistent: {0}")]
    Inconsistent(#[from] StepError),
    /// The agent has another driver.
    #[error("it was started with the driver `{found}`, but this agent has `{expected}`; use the same driver")]
    Driver {
        /// The driver of the session.
        found: String,
        /// The driver of the agent.
        expected: String,
    },
    /// The agent has another actor.
    #[error("it belongs to {found}, but this agent acts for {expected}; use the same actor")]
    Actor {
        /// The actor of the session, quoted, or `nobody`.
        found: String,
        /// The actor of the agent, quoted, or `nobody`.
        expected: String,
    },
}

impl SavedSession {
    /// Reads the entries of a session, in their order.
    ///
    /// # Errors
    /// If there are none, one is missing or malformed, or they have another version.
    pub fn from_entries(entries: &[SessionEntry]) -> Result<Self, SavedSessionError> {
        let (first, rest) = entries.split_first().ok_or(SavedSessionError::Missing)?;
        for (entry, expected) in entries.iter().zip(0..) {
            if entry.number != expected {
                let reason = "it is missing".to_owned();
                return Err(SavedSessionError::Entry { number: expected, reason });
            }
        }
        let version: serde_json::Value =
            serde_json::from_str(&first.content).map_err(|error| malformed_entry(0, &error))?;
        match version.get("version").and_then(serde_json::Value::as_u64) {
            Some(found) if found != u64::from(SAVED_VERSION) => return Err(SavedSessionError::Version { found }),
            _ => {}
        }
        let head: SavedHead = serde_json::from_value(version).map_err(|error| malformed_entry(0, &error))?;
        let SavedHead { config, driver, actor, mut state, settings, .. } = head;
        let mut steps = Vec::with_capacity(rest.len());
        let mut is_withheld = false;
        for entry in rest {
            let saved: SavedInput =
                serde_json::from_str(&entry.content).map_err(|error| malformed_entry(entry.number, &error))?;
            state = saved.state.or(state);
            is_withheld |= saved.is_withheld;
            steps.push(match (saved.input, saved.program) {
                (Some(input), None) => SavedStep::Input(Box::new(RecordedInput { at: entry.at, input }), saved.reply),
                (None, Some(program)) => SavedStep::Program(program),
                (None, None) if saved.is_withheld => {
                    return Err(SavedSessionError::Withheld { number: entry.number });
                }
                _ => {
                    let reason = "it has neither an input nor events of a program".to_owned();
                    return Err(SavedSessionError::Entry { number: entry.number, reason });
                }
            });
        }
        let last = rest.last().map(|entry| entry.at);
        Ok(Self { config, driver, actor, state, settings, steps, is_withheld, last })
    }

    /// Returns the id of the session.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.config.id
    }

    /// Returns the name of its driver's protocol.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Returns the actor on whose behalf it runs.
    #[must_use]
    pub fn actor(&self) -> Option<&str> {
        self.actor.as_deref()
    }

    /// Returns the settings of the program that began it, in a format of its own: see
    /// [`LoopBuilder::saved_settings`](crate::agent::LoopBuilder::saved_settings). They are not authenticated, and must not
    /// be taken for permissions.
    #[must_use]
    pub fn settings(&self) -> Option<&str> {
        self.settings.as_deref()
    }

    /// Returns the messages of the user, oldest first.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match step {
            SavedStep::Input(recorded, _) => match &recorded.input {
                Input::UserMessage { text, .. } => Some(text.as_str()),
                _ => None,
            },
            SavedStep::Program(_) => None,
        })
    }

    /// Returns the conversation of the batch protocol: one entry for each message, thought, text, call and result. The
    /// messages of the model are made of them again by [`to_messages`](crate::batch::to_messages).
    #[must_use]
    pub fn conversation(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for step in &self.steps {
            let SavedStep::Input(recorded, parts) = step else { continue };
            match &recorded.input {
                Input::UserMessage { text, .. } => entries.push(Entry::User(text.clone())),
                Input::ToolsFinished { outcome, .. } | Input::ToolsInterrupted { outcome, .. } => {
                    entries.extend(outcome.executions.iter().map(ToolReport::from_execution).map(Entry::Result));
                }
                _ => {}
            }
            entries.extend(parts.iter().flatten().cloned().map(|part| match part {
                ReplyPart::Think(text) => Entry::Think(text),
                ReplyPart::Respond(text) => Entry::Respond(text),
                ReplyPart::Call(call) => Entry::Call(call),
            }));
        }
        entries
    }

    /// Makes the session again, with this compaction.
    ///
    /// # Errors
    /// If it was begun with another driver, or its entries do not follow from each other.
    pub fn restore(
        self,
        driver: Box<dyn Driver>,
        compaction: Option<Arc<dyn Compaction>>,
    ) -> Result<RestoredSession, SavedSessionError> {
        if self.driver != driver.name() {
            let expected = driver.name().to_owned();
            return Err(SavedSessionError::Driver { found: self.driver, expected });
        }
        let mut session = Session::new(self.config, driver).with_compaction(compaction);
        let entries = u64::try_from(self.steps.len()).unwrap_or(u64::MAX).saturating_add(1);
        let mut action = None;
        let mut programs = Programs::default();
        for step in self.steps {
            match step {
                SavedStep::Input(mut recorded, parts) => {
                    if let (Input::ModelAnswered { response, .. }, Some(parts)) = (&mut recorded.input, parts) {
                        response.reply = Reply::Text(session.driver.join_reply(&parts));
                    }
                    action = Some(session.step(recorded.input, recorded.at)?);
                    programs.settle(&session);
                }
                SavedStep::Program(SavedProgram { call, events }) => programs.push(&call, events),
            }
        }
        let is_pending = action.is_some_and(|action| !matches!(action, Action::Finish(_)));
        Ok(RestoredSession {
            session,
            actor: self.actor,
            state: self.state,
            entries,
            last: self.last,
            is_pending,
            is_withheld: self.is_withheld,
            programs,
        })
    }
}

fn malformed_entry(number: u64, error: &serde_json::Error) -> SavedSessionError {
    SavedSessionError::Entry { number, reason: error.to_string() }
}

/// The records of the programs that a session waits for, by the ids of the model's calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct Programs(HashMap<String, ProgramRecord>);

impl Programs {
    pub(crate) fn push(&mut self, call: &str, events: Vec<ProgramEvent>) {
        let record = self.0.entry(call.to_owned()).or_default();
        events.into_iter().for_each(|event| record.push(event));
    }

    pub(crate) fn record(&self, call: &str) -> ProgramRecord {
        self.0.get(call).cloned().unwrap_or_default()
    }

    pub(crate) fn has(&self, call: &str) -> bool {
        self.0.contains_key(call)
    }

    /// Forgets the programs that the session does not wait for any more after an input. It has counted the calls of
    /// those that wait for answers.
    pub(crate) fn settle(&mut self, session: &Session) {
        if self.0.is_empty() {
            return;
        }
        let waiting = session.waiting_calls();
        let pending = session.pending_calls();
        self.0.retain(|id, record| {
            let waits = waiting.iter().any(|call| call.deferred.call == *id);
            if waits {
                record.count();
            }
            waits || pending.iter().any(|call| call.id == *id)
        });
    }
}

impl RestoredSession {
    /// Returns a session that has just begun, without entries.
    #[must_use]
    pub(crate) fn begin(session: Session) -> Self {
        let programs = Programs::default();
        let is_pending = false;
        let is_withheld = false;
        Self { session, actor: None, state: None, entries: 0, last: None, is_pending, is_withheld, programs }
    }
}

/// A session that was made of its entries.
#[derive(Debug)]
pub struct RestoredSession {
    /// The session.
    pub session: Session,
    /// The actor on whose behalf it runs.
    pub actor: Option<String>,
    /// The agent's state, as JSON text.
    pub state: Option<String>,
    /// The number of its entries.
    pub entries: u64,
    /// The time of the last entry.
    pub last: Option<Timestamp>,
    /// True if a run is under way.
    pub is_pending: bool,
    pub(crate) is_withheld: bool,
    pub(crate) programs: Programs,
}
