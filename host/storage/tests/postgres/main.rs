//! The event log and the key-value store in a real PostgreSQL server.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test fails by panicking"
)]

mod copies;
mod failures;
mod harness;
mod key_value;
mod migrations;
mod partitions;
mod suite_runs;
mod tampering;
mod tls;
mod writers;

#[path = "../suite/mod.rs"]
mod suite;
