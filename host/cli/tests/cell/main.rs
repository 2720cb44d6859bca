//! Tests of cells with a real NATS server, gateways and workers as processes.
//!
//! `FUMEHOOD_NATS_SERVER` names the server, which `tests/cell/setup` installs. Unset, the tests print `SKIPPED`.

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
mod harness;
mod jobs;
mod key_values;
mod losses;
mod operation;
mod proxy;
mod pushed;
