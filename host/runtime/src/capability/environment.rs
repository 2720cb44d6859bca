//! Environment variables and command line: exactly those that were granted, and nothing of the host's own.

use fumehood_core::policy::permission::{CommandLine, Environment};
use wasmtime_wasi::WasiCtxBuilder;

/// Sets the variables and the command line of the guest. There is no working directory.
pub(crate) fn configure(builder: &mut WasiCtxBuilder, environment: &Environment, command_line: &CommandLine) {
    builder.envs(environment.variables()).args(command_line.arguments());
}
