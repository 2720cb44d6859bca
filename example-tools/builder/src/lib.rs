//! Builds the example components from source, and checks if the committed ones are up to date.
//!
//! `example-tools/dist/` contains the built components, so that running them requires no WebAssembly toolchain, and
//! `digests.toml` with the digest of the sources of each. The interpreter of code mode is built in the same way, into the
//! folder of the crate that contains it.

mod catalogue;
mod compile;
mod interpreter;
mod lockfile;
mod preinitialize;
mod record;
mod sources;
mod workspace;

pub use catalogue::{ExampleTool, TOOLS, find_tools};
pub use compile::{build, choose_toolchain};
pub use fumehood_author::build::{RustTarget, Toolchain};
pub use interpreter::{INTERPRETER, InterpreterToolchain, build_interpreter, interpreter_digest};
pub use record::{BuildRecord, Record, Staleness, component_digest};
pub use sources::source_digest;
pub use workspace::Workspace;

/// The command that rebuilds `example-tools/dist/`.
pub const REBUILD: &str = "cargo run -p fumehood-build-tools";
