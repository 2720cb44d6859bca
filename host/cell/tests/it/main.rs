//! Tests of the protocol between gateways and workers.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "functions that tests share panic as tests do"
)]

mod bus;
mod costs;
mod jobs;
mod scale;
mod simulation;
