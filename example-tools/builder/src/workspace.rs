//! Where things are in the checkout, and what its manifests say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use toml::{Table, Value};

/// The checkout that is built.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: PathBuf,
}

/// Dependencies of this target are in no component.
const NATIVE: &str = r#"cfg(not(target_arch = "wasm32"))"#;

/// A crate of the checkout.
#[derive(Clone, Debug)]
pub(crate) struct LocalPackage {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// The names of what it depends on in a component, without what only its tests need.
    pub(crate) dependencies: Vec<String>,
}

impl Workspace {
    /// The checkout that this program was compiled in.
    #[must_use]
    pub fn of_this_program() -> Self {
        let builder = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self { root: builder.ancestors().nth(2).unwrap_or(builder).to_owned() }
    }

    /// The folder of the workspace's manifest.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the built components are kept.
    #[must_use]
    pub fn dist(&self) -> PathBuf {
        self.root.join("example-tools/dist")
    }

    /// The workspace's manifest.
    pub(crate) fn manifest(&self) -> Result<Table> {
        read_toml(&self.root.join("Cargo.toml"))
    }

    /// The crates of the checkout, by name.
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

fn dependencies(manifest: &Table) -> Vec<String> {
    let names = |table: Option<&Value>| -> Vec<String> {
        table.and_then(Value::as_table).map(|table| table.keys().cloned().collect()).unwrap_or_default()
    };
    let mut all = names(manifest.get("dependencies"));
    all.extend(names(manifest.get("build-dependencies")));
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    for (_, target) in targets.filter(|(target, _)| target.as_str() != NATIVE) {
        all.extend(names(target.get("dependencies")));
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
    fn dependencies_of_tests_and_of_native_builds_do_not_count() {
        let manifest = "[dependencies]\na = '1'\n[dev-dependencies]\nb = '1'\n[target.'cfg(unix)'.dependencies]\nc = '1'\n\
             [target.'cfg(not(target_arch = \"wasm32\"))'.dependencies]\nd = '1'";
        assert_eq!(dependencies(&manifest.parse().unwrap()), ["a", "c"]);
    }

    #[test]
    fn this_checkout_has_the_sdk() {
        let packages = Workspace::of_this_program().packages().unwrap();
        assert!(packages["fumehood-guest"].dependencies.contains(&"wit-bindgen".to_owned()));
    }
}
