//! Dependency closures in `Cargo.lock`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::workspace::LocalPackage;

/// A lock file.
#[derive(Debug, Deserialize)]
pub(crate) struct Lockfile {
    package: Vec<LockedPackage>,
}

#[derive(Debug, Deserialize)]
struct LockedPackage {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

impl Lockfile {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not a lock file", path.display()))
    }

    /// Returns the crates that `package` is built from, itself included. Of the workspace's own crates, dependencies of
    /// tests are left out.
    pub(crate) fn closure(&self, package: &str, local: &BTreeMap<String, LocalPackage>) -> Result<Closure> {
        let mut closure = Closure::default();
        let mut waiting = vec![package.to_owned()];
        let mut seen = BTreeSet::new();
        while let Some(reference) = waiting.pop() {
            if !seen.insert(reference.clone()) {
                continue;
            }
            let locked = self.find(&reference)?;
            let checksum = locked.checksum.as_deref().unwrap_or("-");
            closure.lines.insert(format!("{} {} {checksum}", locked.name, locked.version));
            let own = if locked.source.is_none() { local.get(&locked.name) } else { None };
            if own.is_some() {
                closure.local.insert(locked.name.clone());
            }
            let is_needed = |dependency: &&String| {
                let name = dependency.split(' ').next().unwrap_or_default();
                own.is_none_or(|own| own.dependencies.iter().any(|needed| needed == name))
            };
            waiting.extend(locked.dependencies.iter().filter(is_needed).cloned());
        }
        Ok(closure)
    }

    /// Finds a package by reference: `name`, or `name version` if there are several versions.
    fn find(&self, reference: &str) -> Result<&LockedPackage> {
        let mut parts = reference.split(' ');
        let name = parts.next();
        let version = parts.next();
        self.package
            .iter()
            .find(|locked| {
                Some(locked.name.as_str()) == name && version.is_none_or(|version| locked.version == version)
            })
            .with_context(|| format!("Cargo.lock has no `{reference}`; run `cargo metadata` to bring it up to date"))
    }
}

/// The crates that a crate is built from.
#[derive(Debug, Default)]
pub(crate) struct Closure {
    /// One line with name, version and checksum for each crate.
    pub(crate) lines: BTreeSet<String>,
    /// The names of those in the workspace.
    pub(crate) local: BTreeSet<String>,
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const LOCK: &str = r#"
        version = 4
        [[package]]
        name = "tool"
        version = "0.1.0"
        dependencies = ["regex 2.0.0", "test-only"]
        [[package]]
        name = "regex"
        version = "1.0.0"
        source = "registry"
        checksum = "aa"
        [[package]]
        name = "regex"
        version = "2.0.0"
        source = "registry"
        checksum = "bb"
        dependencies = ["memchr"]
        [[package]]
        name = "memchr"
        version = "3.0.0"
        source = "registry"
        checksum = "cc"
        [[package]]
        name = "test-only"
        version = "1.0.0"
        source = "registry"
        checksum = "dd"
    "#;

    #[test]
    fn leaves_out_dependencies_of_tests() {
        let lock: Lockfile = toml::from_str(LOCK).unwrap();
        let tool = LocalPackage { folder: PathBuf::new(), dependencies: vec!["regex".to_owned()] };
        let closure = lock.closure("tool", &BTreeMap::from([("tool".to_owned(), tool)])).unwrap();
        assert_eq!(Vec::from_iter(closure.lines), ["memchr 3.0.0 cc", "regex 2.0.0 bb", "tool 0.1.0 -"]);
        assert_eq!(Vec::from_iter(closure.local), ["tool"]);
    }

    #[test]
    fn error_names_a_missing_crate() {
        let lock: Lockfile = toml::from_str(LOCK).unwrap();
        assert!(lock.closure("nope", &BTreeMap::new()).unwrap_err().to_string().contains("`nope`"));
    }
}
