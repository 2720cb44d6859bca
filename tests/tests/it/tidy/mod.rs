//! The rules of the house that a compiler does not check. They are written down in ARCHITECTURE.md and CONTRIBUTING.md.

mod crates;
mod files;
mod idioms;
mod names;
mod pages;
mod platform;
mod release;
mod spans;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Files that wit-bindgen writes, and a test of the SDK compares with what it would write now. Rules about the length of code
/// and about `unsafe` do not apply to them.
const GENERATED: &[&str] = &[
    "guest-sdk/hooks/src/bindings.rs",
    "guest-sdk/src/async_bindings.rs",
    "guest-sdk/src/bindings.rs",
    "guest-sdk/src/resource_bindings.rs",
];

/// A package of the workspace, as `cargo metadata` describes it.
struct Package {
    name: String,
    /// Path of its folder, relative to the root of the project.
    folder: String,
    /// Names of its normal dependencies: neither those of tests nor those of build scripts.
    dependencies: Vec<String>,
    /// The members of its manifest, as cargo writes them.
    manifest: serde_json::Value,
}

impl Package {
    fn is_published(&self) -> bool {
        self.manifest["publish"].is_null()
    }
}

static PACKAGES: LazyLock<Vec<Package>> = LazyLock::new(packages);

fn packages() -> Vec<Package> {
    let arguments = ["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).current_dir(root()).args(arguments).output().unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let workspace = metadata["workspace_root"].as_str().unwrap();
    let package = |package: &serde_json::Value| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let folder = manifest.parent().unwrap().strip_prefix(workspace).unwrap();
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
        Package {
            name: package["name"].as_str().unwrap().to_owned(),
            folder: folder.display().to_string(),
            dependencies: normal.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect(),
            manifest: package.clone(),
        }
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns all Rust files under a folder, with their paths relative to the root of the project.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((name, read(&path)));
            }
        }
    }
    found.sort();
    found
}

/// Returns all Rust files of the project.
fn all_sources() -> Vec<(String, String)> {
    let mut folders: Vec<&str> = PACKAGES.iter().filter_map(|package| package.folder.split('/').next()).collect();
    folders.sort_unstable();
    folders.dedup();
    folders.into_iter().flat_map(sources).collect()
}

/// Returns the lines before the unit tests.
fn before_tests(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let begins_tests = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].ends_with('{');
    let end = lines.windows(2).position(begins_tests).unwrap_or(lines.len());
    lines[..end].to_vec()
}

fn fail_on(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}\n  {}", broken.join("\n  "));
}
