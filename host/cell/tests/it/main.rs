//! Tests of the protocol between gateways and workers.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "functions that tests share panic as tests do"
)]

mod budgets;
mod bus;
mod client_certificates;
mod components;
mod jobs;
mod key_value;
mod nats;
mod old_servers;
mod recipes;
mod test_tools;
