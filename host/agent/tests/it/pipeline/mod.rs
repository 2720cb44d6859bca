//! Tests of the pipeline: the path of a call from the intent of a model to its result and its records.

mod batches;
mod checks;
mod contract;
mod decisions;
mod flow_sessions;
pub(crate) mod flows;
mod guards;
mod outcomes;
mod programs;
pub(crate) mod stage;
mod upkeep;
