//! The digest of the sources of a component.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};
use toml::Table;

use crate::catalogue::ExampleTool;
use crate::lockfile::{Closure, Lockfile};
use crate::workspace::Workspace;

/// The crate whose bindings are generated from the workspace's `wit/`.
const SDK: &str = "fumehood-guest";

/// Computes the SHA-256 digest of a tool's sources, in hexadecimal: its own and the SDK's, the contract, the versions
/// of all dependencies, and the build settings in the workspace's manifest. It does not depend on the path of the
/// checkout.
///
/// # Errors
///
/// If a file cannot be read.
pub fn source_digest(workspace: &Workspace, tool: &ExampleTool) -> Result<String> {
    let packages = workspace.packages()?;
    let closure = Lockfile::read(&workspace.root().join("Cargo.lock"))?.closure(&tool.package(), &packages)?;
    let mut sources = Sources::default();
    for package in closure.local.iter().filter_map(|name| packages.get(name)) {
        sources.add(workspace.root(), &package.folder.join("Cargo.toml"))?;
        for folder in ["src", "wit"] {
            sources.add(workspace.root(), &package.folder.join(folder))?;
        }
    }
    if closure.local.contains(SDK) {
        // The folders in there are other contracts.
        sources.add_files(workspace.root(), &workspace.root().join("wit"))?;
    }
    sources.contents.insert("Cargo.lock".to_owned(), lock_lines(&closure).into_bytes());
    sources.contents.insert("Cargo.toml".to_owned(), build_settings(&workspace.manifest()?, &closure)?.into_bytes());
    Ok(sources.digest())
}

/// Computes the SHA-256 digest of files and folders of the checkout, in hexadecimal.
///
/// # Errors
///
/// If one of them cannot be read.
pub(crate) fn digest_of(workspace: &Workspace, paths: &[&str]) -> Result<String> {
    let mut sources = Sources::default();
    for path in paths {
        sources.add(workspace.root(), &workspace.root().join(path))?;
    }
    Ok(sources.digest())
}

fn lock_lines(closure: &Closure) -> String {
    closure.lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Returns the build settings in the workspace's manifest: the profiles, and the features of the dependencies.
fn build_settings(manifest: &Table, closure: &Closure) -> Result<String> {
    let mut settings = Table::new();
    if let Some(profiles) = manifest.get("profile").and_then(|profiles| profiles.as_table()) {
        for profile in ["guest", "release"] {
            settings.extend(profiles.get(profile).map(|value| (format!("profile.{profile}"), value.clone())));
        }
    }
    let dependencies = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    for (name, value) in dependencies.and_then(|table| table.as_table()).into_iter().flatten() {
        if closure.lines.iter().any(|line| line.split(' ').next() == Some(name)) {
            settings.insert(format!("dependency.{name}"), value.clone());
        }
    }
    toml::to_string(&settings).context("the workspace's Cargo.toml cannot be written anew")
}

/// File contents by path, relative to the root of the checkout and with `/` as separator.
#[derive(Default)]
struct Sources {
    contents: BTreeMap<String, Vec<u8>>,
}

impl Sources {
    /// Adds a file, or all files below a folder. A missing one is ignored.
    fn add(&mut self, root: &Path, path: &Path) -> Result<()> {
        if path.is_dir() {
            for entry in fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))? {
                self.add(root, &entry.with_context(|| format!("cannot list {}", path.display()))?.path())?;
            }
        } else if path.is_file() {
            let contents = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            let relative = path.strip_prefix(root).unwrap_or(path);
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            self.contents.insert(parts.join("/"), contents);
        }
        Ok(())
    }

    /// Adds the files of a folder, without those of the folders in it.
    fn add_files(&mut self, root: &Path, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
            if path.is_file() {
                self.add(root, &path)?;
            }
        }
        Ok(())
    }

    /// Computes the digest. Paths and contents are prefixed with their lengths, so that different files never hash the
    /// same bytes.
    fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        for (path, contents) in &self.contents {
            for part in [path.as_bytes(), contents] {
                hasher.update((part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        format!("{:x}", hasher.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(files: &[(&str, &str)]) -> String {
        let root = tempfile::tempdir().unwrap();
        for (path, contents) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        let mut sources = Sources::default();
        sources.add(root.path(), root.path()).unwrap();
        sources.digest()
    }

    #[test]
    fn digest_ignores_location_and_order() {
        assert_eq!(digest(&[("a/b", "1"), ("c", "2")]), digest(&[("c", "2"), ("a/b", "1")]));
    }

    #[test]
    fn digest_covers_names_and_contents() {
        let all = [
            digest(&[("a", "1")]),
            digest(&[("b", "1")]),
            digest(&[("a", "2")]),
            digest(&[("a", "1"), ("b", "")]),
            digest(&[("a/b", "1")]),
        ];
        assert_eq!(std::collections::BTreeSet::from(all).len(), 5);
    }
}
