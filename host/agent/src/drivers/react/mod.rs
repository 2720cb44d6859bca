//! The driver for any model that can write JSON: the model writes one JSON object for each decision.

mod decision;
mod driver;
mod prompt;
mod schema;

pub use driver::ReactDriver;
