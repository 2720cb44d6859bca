//! The driver for any model that can write JSON: it decides in one object what to do next.

mod decision;
mod driver;
mod format;
mod prompt;
mod schema;

pub use driver::ReactDriver;
