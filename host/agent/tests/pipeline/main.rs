//! Tests of the pipeline: the path of a call from the intent of a model to its result and its records.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "clippy takes only functions with #[test] for tests")]

mod batches;
mod checks;
mod contract;
mod guards;
mod outcomes;
mod stage;
mod upkeep;
