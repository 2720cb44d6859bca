//! Tests of the crate at its boundary, against registries on this machine.

mod credentials;
mod debian;
mod decisions;
mod fixture;
mod hostile;
mod interop;
mod keys;
mod road;
mod server;
mod store;
