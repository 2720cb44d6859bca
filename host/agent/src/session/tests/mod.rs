//! Tests of a session, input by input, without a clock, a model or tools.

mod conversation;
mod decisions;
mod limits;
mod output;
mod properties;
pub(crate) mod world;
