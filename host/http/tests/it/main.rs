//! The HTTP API at its boundary: a real listener and a real client, with tools of the test.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod api_server;
mod calls;
mod dashboard;
mod document;
mod job_keys;
mod jobs;
mod limits;
mod sessions;
mod streams;
mod tenants;
