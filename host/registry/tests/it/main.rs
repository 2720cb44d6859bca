//! Tests of the crate at its boundary, against registries on this machine.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "functions that tests share panic as tests do, and say what is skipped"
)]

mod credentials;
mod debian;
mod decisions;
mod fixture;
mod hostile;
mod interop;
mod keys;
mod metadata;
mod road;
mod server;
mod store;
