//! Tests of the drivers and of the pipeline through their public interface.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod code_provider;
mod drivers;
mod line_interpreter;
mod pipeline;
mod skills;
mod tool_search;
