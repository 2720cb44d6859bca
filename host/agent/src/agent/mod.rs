//! The loop around a session: it carries out the actions of the session (requests, calls, questions), enforces time
//! limits and writes records. All decisions are made by the session.

mod agent_tool;
mod answer_call;
mod builder;
mod events;
mod iteration;
mod no_model;
mod outcome;
mod partial_results;
mod record_factory;
mod run;
mod saving;
mod typed_run;
mod wait;
mod writing_time;

pub use crate::clock::{Clock, SystemClock};
pub use agent_tool::{AgentTool, ParentSession};
pub use answer_call::{AnswerCallError, answer_saved};
pub use builder::{BuildError, LoopBuilder};
pub use events::{AgentEvent, Subscription, Tap, is_streamed};
pub use iteration::Iteration;
pub use no_model::NoModel;
pub use outcome::{Outcome, ResetError, RunError};
pub use partial_results::{PartialResult, PartialResults};
pub use run::Agent;
pub use saving::RepeatCall;
pub use typed_run::TypedRunError;
pub use wait::CancelHandle;

#[cfg(test)]
mod tests;
