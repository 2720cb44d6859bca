//! The loop around a session: it carries out the actions of the session (requests, calls, questions), enforces time limits
//! and writes records. All decisions are made by the session.

mod builder;
mod cancel;
mod events;
mod ledger;
mod lifecycle;
mod outcome;
mod run;
mod texts;
mod waiting;
mod writing;

pub use crate::clock::{Clock, SystemClock};
pub use builder::{BuildError, LoopBuilder};
pub use cancel::CancelHandle;
pub use events::{AgentEvent, EventName, Subscription, Tap};
pub use outcome::{Outcome, ResetError, RunError};
pub use run::{Agent, Iteration};

#[cfg(test)]
mod tests;
