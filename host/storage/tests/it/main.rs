//! Tests of the public interface.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test fails by panicking"
)]

mod event_log;
#[path = "../suite/mod.rs"]
mod suite;
