//! Requests of tools over real sockets: what is granted arrives as it should, and nothing else arrives anywhere.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod addresses;
mod bounds;
mod cost;
mod names;
mod secrets;
mod server;
mod stage;
mod time;
mod wire;
