//! The path of a call, from what a model writes to what it is told and what is recorded.

mod batches;
mod checks;
mod outcomes;
mod stage;
mod upkeep;
