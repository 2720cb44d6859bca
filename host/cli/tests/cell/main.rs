//! Tests of cells with a real NATS server, gateways and workers as processes.
//!
//! `FUMEHOOD_NATS_SERVER` names the server, which `tests/cell/setup` installs. Unset, the tests print `SKIPPED`. With
//! `FUMEHOOD_POSTGRES_BIN`, the gateways of the chaos test have their log in PostgreSQL.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod budgets;
mod calls;
mod chaos;
mod client;
mod drill;
mod harness;
mod jobs;
mod key_values;
mod log;
mod losses;
mod operation;
mod proxy;
mod pushed;
mod recipes;
mod road;
mod traces;
