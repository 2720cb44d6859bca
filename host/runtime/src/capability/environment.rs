//! Environment variables and command line: those that were granted, word for word. Nothing is taken from the host's own.

use fumehood_core::permission::{CommandLine, Environment};
use wasmtime_wasi::WasiCtxBuilder;

/// Gives the guest these variables and this command line. There is no working directory.
pub(crate) fn give(builder: &mut WasiCtxBuilder, environment: &Environment, command_line: &CommandLine) {
    builder.envs(environment.variables()).args(command_line.arguments());
}
