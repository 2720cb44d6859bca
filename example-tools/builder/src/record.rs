//! The record of built components in `digests.toml`, and the check for stale ones.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::REBUILD;

const HEADER: &str = "# What the components beside this file were built from. Written by the builder; do not edit.\n\n";

/// The built components of one folder, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Record {
    built: BTreeMap<String, BuildRecord>,
}

/// One built component.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BuildRecord {
    /// The SHA-256 digest of its sources.
    pub sources: String,
    /// The SHA-256 digest of the component.
    pub component: String,
    /// The compiler that built it. Another compiler produces different bytes.
    pub compiler: String,
}

/// A reason to rebuild a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staleness {
    /// The component or its record is missing.
    Missing,
    /// The sources have changed since the build.
    SourcesChanged,
    /// The component is not the one that was built.
    ComponentChanged,
}

impl fmt::Display for Staleness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Missing => "missing",
            Self::SourcesChanged => "stale: its sources changed since it was built",
            Self::ComponentChanged => "stale: it is not the component that was built",
        })
    }
}

impl Record {
    /// Reads the record in a folder, or returns an empty one if there is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not a record.
    pub fn read(dist: &Path) -> Result<Self> {
        let path = path(dist);
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).with_context(|| {
                format!("{} is not a record of builds; delete it and run `{REBUILD}`", path.display())
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Writes the record to its folder.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, dist: &Path) -> Result<()> {
        let path = path(dist);
        let text = toml::to_string(self).context("the record cannot be written as TOML")?;
        fs::write(&path, format!("{HEADER}{text}")).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Records a built component.
    pub fn insert(&mut self, name: &str, built: BuildRecord) {
        self.built.insert(name.to_owned(), built);
    }

    /// Returns the reason to rebuild the component `name` in `dist`, whose sources have the digest `sources` now, or
    /// `None` if it is up to date.
    ///
    /// # Errors
    ///
    /// If the component cannot be read.
    pub fn staleness(&self, dist: &Path, name: &str, sources: &str) -> Result<Option<Staleness>> {
        let component = dist.join(format!("{name}.wasm"));
        let Some(built) = self.built.get(name).filter(|_| component.is_file()) else {
            return Ok(Some(Staleness::Missing));
        };
        if sources != built.sources {
            return Ok(Some(Staleness::SourcesChanged));
        }
        let bytes = fs::read(&component).with_context(|| format!("cannot read {}", component.display()))?;
        Ok((component_digest(&bytes) != built.component).then_some(Staleness::ComponentChanged))
    }
}

fn path(dist: &Path) -> PathBuf {
    dist.join("digests.toml")
}

/// Returns the SHA-256 digest of a component, in hexadecimal.
#[must_use]
pub fn component_digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_reason_of_staleness() {
        let dist = tempfile::tempdir().unwrap();
        let check = |record: &Record| record.staleness(dist.path(), "tool", "sources").unwrap();
        let mut record = Record::read(dist.path()).unwrap();
        assert_eq!(check(&record), Some(Staleness::Missing));
        fs::write(dist.path().join("tool.wasm"), "component").unwrap();
        assert_eq!(check(&record), Some(Staleness::Missing));

        let built = BuildRecord {
            sources: "sources".to_owned(),
            component: component_digest(b"component"),
            compiler: "rustc".to_owned(),
        };
        record.insert("tool", BuildRecord { sources: "other".to_owned(), ..built.clone() });
        assert_eq!(check(&record), Some(Staleness::SourcesChanged));
        record.insert("tool", BuildRecord { component: "other".to_owned(), ..built.clone() });
        assert_eq!(check(&record), Some(Staleness::ComponentChanged));
        record.insert("tool", built);
        assert_eq!(check(&record), None);

        record.write(dist.path()).unwrap();
        assert_eq!(Record::read(dist.path()).unwrap(), record);
    }
}
