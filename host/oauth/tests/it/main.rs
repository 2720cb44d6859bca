//! Access tokens at the boundary of a listener: a real issuer on loopback, a real listener, and requests over a socket.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod issuer;
mod keys;
mod token_server;
mod tokens;
