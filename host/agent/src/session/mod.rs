//! The session: a pure step function from inputs to actions. It reads no clock and does no I/O, so recorded inputs
//! always give the same actions.

mod approval;
mod batch;
mod breaker;
pub mod budget;
mod compaction;
mod config;
mod conversation;
mod decide;
mod direct;
mod input;
mod machine;
mod pending;
mod repetition;
mod saved;
mod synthetic;
pub mod transcript;

pub use crate::output_schema::OutputSchema;
pub use approval::{AnswerError, PendingCall};
pub(crate) use compaction::message_bytes;
pub use compaction::{Compaction, OldestResultsFirst};
pub use config::{OnRepetition, Prompt, Repetition, SessionConfig};
pub use input::{Action, BudgetQuestion, Input, RecordedInput, StepError};
pub use machine::{Session, replay};
pub(crate) use saved::SAVED_VERSION;
pub(crate) use saved::{Programs, SavedHead, SavedInput, SavedProgram};
pub use saved::{RestoredSession, SavedSession, SavedSessionError};

#[cfg(test)]
pub(crate) mod tests;
