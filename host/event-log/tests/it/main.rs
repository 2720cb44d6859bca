//! Tests of the public interface of the event log.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test fails by panicking"
)]

mod checkpoint;
mod journal;
mod kill;
mod read;
mod sample;
mod storage_error;
mod verify;
