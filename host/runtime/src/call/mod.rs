//! One call from its place in the queue to its outcome.

pub(crate) mod admission;
mod contract;
mod deferred;
mod exception;
pub(crate) mod input;
pub(crate) mod outcome;
pub(crate) mod place;
pub(crate) mod run;
pub(crate) mod shared;
mod tool_call;
