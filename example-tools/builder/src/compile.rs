//! From a tool's crate to its component.

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

/// Builds one component. Cargo says on stderr what it is doing.
///
/// # Errors
///
/// If the crate does not compile, or what was compiled is not a valid component.
pub fn build(workspace: &Workspace, tool: &ExampleTool, toolchain: &Toolchain) -> Result<Vec<u8>> {
    let folder = target_folder(workspace);
    // One crate at a time: cargo would otherwise build all of them with the features that any of them wants.
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
        // The linker of this target makes components itself.
        Target::Wasi => bytes,
        Target::Pure => encode(&bytes).with_context(|| format!("{} is no component's module", module.display()))?,
    };
    // A tool of the contract describes itself; one with a WIT of its own is described by that.
    let wit = workspace.root().join("example-tools").join(tool.name).join("wit");
    let component = if wit.is_dir() { documentation::add(component, &wit)? } else { component };
    let mut metadata = AddMetadata::default();
    metadata.name = AddMetadataField::Set(tool.name.to_owned());
    metadata.to_wasm(&component).with_context(|| format!("cannot name the component {}", tool.name))
}

fn encode(module: &[u8]) -> Result<Vec<u8>> {
    ComponentEncoder::default().validate(true).module(module)?.encode()
}

/// Apart from the host's, so that the flags below do not make cargo build everything anew each time.
fn target_folder(workspace: &Workspace) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    workspace.root().join(target).join("guests")
}

/// Panic messages name source files. These flags name them alike on every machine, so that a component tells nothing
/// about where it was built and comes out the same anywhere.
fn encoded_flags(workspace: &Workspace, toolchain: &Toolchain) -> Result<OsString> {
    let home = cargo_home()?;
    // Of several that fit, the compiler takes the last.
    let mut places = vec![
        (home.clone(), "/cargo"),
        (toolchain.sysroot().to_owned(), "/rust"),
        (workspace.root().to_owned(), "/fumehood"),
    ];
    // The folder below this one is named after the registry's address, which a mirror changes.
    for sources in [home.join("registry/src"), home.join("git/checkouts")] {
        for entry in fs::read_dir(&sources).into_iter().flatten().flatten() {
            places.push((entry.path(), "/crates"));
        }
    }
    let mut flags = OsString::new();
    for (place, name) in places {
        for form in forms(&place) {
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

/// The path as it was given and, where that differs, without symbolic links.
fn forms(path: &Path) -> Vec<PathBuf> {
    let mut forms = vec![path.to_owned()];
    forms.extend(path.canonicalize().ok().filter(|canonical| canonical != path));
    forms
}

fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = env::var_os("CARGO_HOME") {
        return Ok(PathBuf::from(home));
    }
    let home = env::home_dir().context("there is no home folder; set CARGO_HOME to where cargo keeps its crates")?;
    Ok(home.join(".cargo"))
}
