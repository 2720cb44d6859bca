//! The record of a program's calls, from which a program that was stopped is run again up to the place where it was.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::result::CallError;
use fumehood_core::chat::ToolIntent;
use fumehood_core::digest::Digest;
use fumehood_core::record::RecordError;
use fumehood_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The conditions under which a program runs. The same program under the same conditions makes the same calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStart {
    /// The name of the execution, from which the random numbers are made.
    pub execution: String,
    /// The time at which its clock begins.
    pub now: Timestamp,
    /// The digest of its code, its tools and its limits.
    pub digest: Digest,
}

/// An event of a program that is recorded before the program learns of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProgramEvent {
    /// The program begins.
    Started(ProgramStart),
    /// A call begins. It may have had its effect if nothing follows.
    Begun {
        /// The number of the call in the program, from 1.
        number: u32,
        /// The digest of the name and the arguments.
        call: Digest,
        /// The name, for messages.
        name: String,
    },
    /// A call waits for a person, and had no effect.
    Deferred {
        /// The number of the call.
        number: u32,
    },
    /// A call has a result, which the program gets next.
    Finished {
        /// The number of the call.
        number: u32,
        /// The digest of the name and the arguments.
        call: Digest,
        /// The name, for messages.
        name: String,
        /// The result as the program gets it.
        result: Result<String, CallError>,
        /// The fuel that the call used.
        fuel: u64,
        /// True if a limit refused the call, so that it never began.
        is_refused: bool,
    },
}

/// The state of a call in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallState {
    /// It had begun, and may have had its effect.
    Begun,
    /// It waits for a person.
    Deferred,
    /// It has this result, with the fuel that it used.
    Finished { result: Result<String, CallError>, fuel: u64 },
    /// A limit refused it.
    Refused { error: CallError },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedCall {
    pub(crate) call: Digest,
    pub(crate) name: String,
    pub(crate) state: CallState,
}

/// The events of one program, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramRecord {
    pub(crate) start: Option<ProgramStart>,
    pub(crate) calls: BTreeMap<u32, RecordedCall>,
    /// The numbers of calls whose results the program got, in that order.
    pub(crate) results: VecDeque<u32>,
    /// The number of the last call that the budget of the session has counted.
    pub(crate) counted_until: u32,
}

impl ProgramRecord {
    /// Adds an event. A program that starts replaces the one before.
    pub fn push(&mut self, event: ProgramEvent) {
        match event {
            ProgramEvent::Started(start) => *self = Self { start: Some(start), ..Self::default() },
            ProgramEvent::Begun { number, call, name } => {
                self.calls.insert(number, RecordedCall { call, name, state: CallState::Begun });
            }
            ProgramEvent::Deferred { number } => {
                if let Some(recorded) = self.calls.get_mut(&number) {
                    recorded.state = CallState::Deferred;
                }
            }
            ProgramEvent::Finished { number, call, name, result, fuel, is_refused } => {
                let state = match result {
                    Err(error) if is_refused => CallState::Refused { error },
                    result => {
                        self.results.push_back(number);
                        CallState::Finished { result, fuel }
                    }
                };
                self.calls.insert(number, RecordedCall { call, name, state });
            }
        }
    }

    /// Returns whether the program has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.start.is_some()
    }

    /// Marks all calls so far as counted by the budget of the session.
    pub(crate) fn count(&mut self) {
        self.counted_until = self.calls.last_key_value().map_or(0, |(number, _)| *number);
    }
}

/// The port that keeps the events of programs.
pub trait ProgramRecords: fmt::Debug + Send + Sync {
    /// Returns the record of the program that this call of the model runs; an empty one if it has not begun.
    fn record(&self, call: &str) -> ProgramRecord;

    /// Stores events of the program that this call of the model runs. Completes when they are on disk.
    ///
    /// # Errors
    /// If they cannot be stored. The program then ends.
    fn append<'a>(&'a self, call: &'a str, events: Vec<ProgramEvent>) -> BoxFuture<'a, Result<(), RecordError>>;

    /// Returns whether a call that had begun when the program stopped may be made again.
    fn may_repeat(&self, call: &ToolIntent) -> bool;
}

/// Returns the digest of a call of a program.
pub(crate) fn call_digest(name: &str, arguments: &str) -> Digest {
    Digest::of(serde_json::json!([name, arguments]).to_string().as_bytes())
}
