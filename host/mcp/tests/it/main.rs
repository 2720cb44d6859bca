//! The MCP client at the boundary of a server that wants a login: both the server and its authorization server are real ones on
//! loopback.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod authorized_server;
mod login;
mod python_sdk;
