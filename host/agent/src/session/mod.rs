//! The session: a step function from what has just happened to what to do next. It reads no clock, waits for nothing
//! and touches nothing, so a recorded list of inputs gives the same actions again.

mod batch;
mod compile;
mod config;
mod decide;
mod input;
mod machine;
mod made_up;
mod repetition;

pub use config::{OnRepetition, Prompt, Repetition, SessionConfig};
pub use input::{Action, BudgetQuestion, Input, Recorded, StepError};
pub use machine::{Session, replay};
pub use made_up::BUDGET_EXHAUSTED;

#[cfg(test)]
pub(crate) mod tests;
