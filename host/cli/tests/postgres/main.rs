//! The command line with its log, its saved sessions and what tools keep in PostgreSQL.

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
mod gateway;
mod recording;
mod serving;
