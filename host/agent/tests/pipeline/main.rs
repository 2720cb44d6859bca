//! The path of a call, from what a model writes to what it is told and what is recorded.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "clippy takes only functions with #[test] for tests")]

mod batches;
mod checks;
mod contract;
mod guards;
mod outcomes;
mod stage;
mod upkeep;
