//! Builds the example components from source, and tells whether the committed ones are still what the sources say.
//!
//! `example-tools/dist/` holds the built components, so that nobody needs a WebAssembly toolchain to run them, and
//! `digests.toml`, which says of what sources each was built.

mod catalogue;
mod compile;
mod documentation;
mod lockfile;
mod record;
mod sources;
mod toolchain;
mod workspace;

pub use catalogue::{ExampleTool, TOOLS, Target, named};
pub use compile::build;
pub use record::{Built, Record, Staleness, component_digest};
pub use sources::source_digest;
pub use toolchain::Toolchain;
pub use workspace::Workspace;

/// The command that makes `example-tools/dist/` fresh.
pub const REBUILD: &str = "cargo run -p fumehood-build-tools";
