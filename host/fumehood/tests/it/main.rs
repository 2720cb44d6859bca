//! Tests of the public interface that differ with the features of the crate, and its examples.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    reason = "a test fails by panicking, and the `main` of an example is not called here"
)]

#[cfg(all(feature = "agent", feature = "storage"))]
mod agent_examples;
#[cfg(feature = "agent")]
mod agent_tool;
#[cfg(feature = "agent")]
mod code_mode;
#[cfg(feature = "agent")]
mod code_savings;
#[cfg(feature = "agent")]
mod context;
#[cfg(feature = "agent")]
mod flows;
#[cfg(all(feature = "agent", feature = "tower"))]
mod fragments;
mod load_again;
mod sandbox;
#[cfg(feature = "tower")]
mod service_example;
