//! Compilation of a tool's crate to a component.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use wasm_metadata::{AddMetadata, AddMetadataField};
use wit_component::ComponentEncoder;

use crate::catalogue::{ExampleTool, Target};
use crate::documentation;
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

/// Builds one component. Cargo reports its progress on stderr.
///
/// # Errors
///
/// If the crate does not compile, or the result is not a valid component.
pub fn build(workspace: &Workspace, tool: &ExampleTool, toolchain: &Toolchain) -> Result<Vec<u8>> {
    let folder = target_folder(workspace);
    // One crate at a time: otherwise cargo would unify the features of all of them.
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--locked", "--profile", "guest", "--package", &tool.package()])
        .args(["--target", tool.target.triple(), "--target-dir"])
        .arg(&folder)
        .current_dir(workspace.root())
        .env("RUSTC", toolchain.rustc())
        .env("PATH", toolchain.search_path()?)
        .env("CARGO_ENCODED_RUSTFLAGS", encoded_flags(workspace, toolchain)?)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "{} does not compile; cargo says above why", tool.package());

    let module =
        folder.join(tool.target.triple()).join("guest").join(format!("{}.wasm", tool.package().replace('-', "_")));
    let bytes = fs::read(&module).with_context(|| format!("cannot read {}", module.display()))?;
    let component = match tool.target {
        // The linker of this target produces components itself.
        Target::Wasi => bytes,
        Target::Pure => encode(&bytes).with_context(|| format!("{} is no component's module", module.display()))?,
    };
    // A tool of the contract has a `describe` function; one with its own WIT is described by its doc comments.
    let wit = workspace.root().join("example-tools").join(tool.name).join("wit");
    let component = if wit.is_dir() { documentation::add(component, &wit)? } else { component };
    let mut metadata = AddMetadata::default();
    metadata.name = AddMetadataField::Set(tool.name.to_owned());
    metadata.to_wasm(&component).with_context(|| format!("cannot name the component {}", tool.name))
}

fn encode(module: &[u8]) -> Result<Vec<u8>> {
    ComponentEncoder::default().validate(true).module(module)?.encode()
}

/// Returns a target folder separate from the host's, so that the flags below do not cause full rebuilds.
fn target_folder(workspace: &Workspace) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    workspace.root().join(target).join("guests")
}

/// Returns compiler flags that remap the paths of source files, which panic messages contain, so that a component
/// reveals nothing about the machine that built it, and builds are reproducible.
fn encoded_flags(workspace: &Workspace, toolchain: &Toolchain) -> Result<OsString> {
    let home = cargo_home()?;
    // If several prefixes match, the compiler uses the last.
    let mut remapped = vec![
        (home.clone(), "/cargo"),
        (toolchain.sysroot().to_owned(), "/rust"),
        (workspace.root().to_owned(), "/fumehood"),
    ];
    // The folders in here are named after the registry's URL, which differs with a mirror.
    for sources in [home.join("registry/src"), home.join("git/checkouts")] {
        for entry in fs::read_dir(&sources).into_iter().flatten().flatten() {
            remapped.push((entry.path(), "/crates"));
        }
    }
    let mut flags = OsString::new();
    for (place, name) in remapped {
        for form in path_forms(&place) {
            if !flags.is_empty() {
                flags.push("\x1f");
            }
            flags.push("--remap-path-prefix=");
            flags.push(form);
            flags.push("=");
            flags.push(name);
        }
    }
    Ok(flags)
}

/// Returns the path as given and, if different, without symbolic links.
fn path_forms(path: &Path) -> Vec<PathBuf> {
    let mut path_forms = vec![path.to_owned()];
    path_forms.extend(path.canonicalize().ok().filter(|canonical| canonical != path));
    path_forms
}

fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = env::var_os("CARGO_HOME") {
        return Ok(PathBuf::from(home));
    }
    let home = env::home_dir().context("there is no home folder; set CARGO_HOME to where cargo keeps its crates")?;
    Ok(home.join(".cargo"))
}
