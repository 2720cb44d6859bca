//! The layout of the checkout, and its manifests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use toml::{Table, Value};

/// A checkout of this repository.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: PathBuf,
}

/// The `cfg` of dependencies that are not part of any component.
const NATIVE_TARGET: &str = r#"cfg(not(target_arch = "wasm32"))"#;

/// A crate of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct LocalPackage {
    /// The folder of the crate.
    pub(crate) folder: PathBuf,
    /// The names of its dependencies in a component, without those of tests.
    pub(crate) dependencies: Vec<String>,
}

impl Workspace {
    /// Returns the checkout in which this program was compiled.
    #[must_use]
    pub fn current() -> Self {
        let builder = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self { root: builder.ancestors().nth(2).unwrap_or(builder).to_owned() }
    }

    /// Returns the folder of the workspace's manifest.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of the built example tools.
    #[must_use]
    pub fn dist(&self) -> PathBuf {
        self.root.join("example-tools/dist")
    }

    /// Returns the folder of the built interpreter, in the crate that contains it.
    #[must_use]
    pub fn interpreters(&self) -> PathBuf {
        self.root.join("host/runtime/interpreters")
    }

    /// Reads the workspace's manifest.
    pub(crate) fn manifest(&self) -> Result<Table> {
        read_toml(&self.root.join("Cargo.toml"))
    }

    /// Reads the crates of the workspace, by name.
    pub(crate) fn packages(&self) -> Result<BTreeMap<String, LocalPackage>> {
        let manifest = self.manifest()?;
        let members = manifest
            .get("workspace")
            .and_then(|workspace| workspace.get("members"))
            .and_then(Value::as_array)
            .context("the workspace's Cargo.toml lists no members")?;
        let mut packages = BTreeMap::new();
        for member in members.iter().filter_map(Value::as_str) {
            let folder = self.root.join(member);
            let manifest = read_toml(&folder.join("Cargo.toml"))?;
            let name = manifest
                .get("package")
                .and_then(|package| package.get("name"))
                .and_then(Value::as_str)
                .with_context(|| format!("{member}/Cargo.toml has no package name"))?;
            packages.insert(name.to_owned(), LocalPackage { folder, dependencies: dependencies(&manifest) });
        }
        Ok(packages)
    }
}

fn table_keys(table: Option<&Value>) -> Vec<String> {
    table.and_then(Value::as_table).map(|table| table.keys().cloned().collect()).unwrap_or_default()
}

fn dependencies(manifest: &Table) -> Vec<String> {
    let mut all = table_keys(manifest.get("dependencies"));
    all.extend(table_keys(manifest.get("build-dependencies")));
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    for (_, target) in targets.filter(|(target, _)| target.as_str() != NATIVE_TARGET) {
        all.extend(table_keys(target.get("dependencies")));
    }
    all
}

/// Reads a TOML file.
pub(crate) fn read_toml(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().with_context(|| format!("{} is not TOML", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_dependencies_of_tests_and_native_builds() {
        let manifest = "[dependencies]\na = '1'\n[dev-dependencies]\nb = '1'\n[target.'cfg(unix)'.dependencies]\nc = '1'\n\
             [target.'cfg(not(target_arch = \"wasm32\"))'.dependencies]\nd = '1'";
        assert_eq!(dependencies(&manifest.parse().unwrap()), ["a", "c"]);
    }

    #[test]
    fn reads_the_packages_of_this_checkout() {
        let packages = Workspace::current().packages().unwrap();
        assert!(packages["fumehood-guest"].dependencies.contains(&"wit-bindgen".to_owned()));
    }
}
