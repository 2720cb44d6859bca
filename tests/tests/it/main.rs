//! The tests of the whole host in one program, because linking the engine once takes less time than once for each file.
//!
//! Tests that measure the process they run in are programs of their own: `resident.rs` and `files_resident.rs`.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and says why it was left out"
)]

mod agent;
mod agent_builder;
mod approval;
mod cache;
mod calls;
mod checklist;
mod compositions;
mod corpus;
mod decisions;
mod documentation;
mod engine;
mod examples;
mod files;
mod fuzz;
mod hooks;
mod hostile_corpus;
mod http;
mod key_value;
mod languages;
mod limits;
mod listener;
mod load;
mod mcp;
mod monitoring;
mod packages;
mod powers;
mod programs;
mod real_model;
mod resources;
mod security_page;
mod supply_chain;
mod surroundings;
mod telemetry;
mod tidy;
mod tool_search;
mod untrusted_text;
mod workspace_features;
