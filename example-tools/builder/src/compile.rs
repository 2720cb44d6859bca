//! Compilation of a tool's crate to a component.

use std::env;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use fumehood_author::build::{CargoBuild, Labels, RustTarget, Toolchain, finish};

use crate::catalogue::ExampleTool;
use crate::workspace::Workspace;

/// Selects a compiler: the one in the environment; rustup's, if the target is installed; or the one that
/// `setup-debian-rust.sh` unpacked.
///
/// # Errors
///
/// If none of them can build for the target.
pub fn choose_toolchain(workspace: &Workspace, target: RustTarget) -> Result<Toolchain> {
    let unpacked = [workspace.root().join(".guest-rust/rustc")];
    Toolchain::choose(target, workspace.root(), &unpacked).context(
        "on Debian and Ubuntu, `example-tools/builder/setup-debian-rust.sh` unpacks a compiler without rustup's servers",
    )
}

/// Builds one component. Cargo reports its progress on stderr.
///
/// # Errors
///
/// If the crate does not compile, or the result is not a valid component.
pub fn build(workspace: &Workspace, tool: &ExampleTool, toolchain: &Toolchain) -> Result<Vec<u8>> {
    let build = CargoBuild {
        folder: workspace.root(),
        package: Some(&tool.package()),
        profile: "guest",
        target: tool.target,
        target_folder: &target_folder(workspace),
        locked: true,
        renamed: &[(workspace.root().to_owned(), "/fumehood".to_owned())],
        renamed_crate: None,
        environment: &[],
    };
    let component = build.run(toolchain).with_context(|| format!("cannot build {}", tool.package()))?;
    // A tool of the contract has a `describe` function; one with its own WIT is described by its doc comments.
    let wit = Some(workspace.root().join("example-tools").join(tool.name).join("wit")).filter(|wit| wit.is_dir());
    let labels = Labels { name: tool.name.to_owned(), ..Labels::default() };
    finish(component, &labels, wit.as_deref(), None).with_context(|| format!("cannot finish {}", tool.name))
}

/// Returns a target folder separate from the host's, so that the flags of components do not cause full rebuilds.
pub(crate) fn target_folder(workspace: &Workspace) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    workspace.root().join(target).join("guests")
}
