//! The server at its boundary: a real listener, and requests over a socket.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod http_api;
mod oauth;
