//! Installed packages of npm and PyPI: each with its dependencies in a folder that is named by the digest of its files.
//!
//! A package is installed once, by `fumehood add`, and from then on runs without a network. Before each start, the files are
//! compared with what the file system said of them when their digest was computed.

mod installer;
mod tree;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use fumehood::Digest;
use fumehood_config::package::{PackageReference, PackageRegistry};
use fumehood_platform::private;
use serde::{Deserialize, Serialize};

pub(crate) use installer::Contents;
use tree::Snapshot;

use crate::exit::UsageError;
use crate::user_folders;

/// Folder of the files of a package, and its record.
const FILES: &str = "files";
const RECORD: &str = "record.json";

/// What the store keeps of a package besides its files.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    package: PackageReference,
    contents: Contents,
    snapshot: Snapshot,
}

/// The packages of this user.
#[derive(Debug)]
pub(crate) struct PackageStore {
    folder: PathBuf,
}

/// A package in the store.
#[derive(Debug)]
pub(crate) struct InstalledPackage {
    /// Its name, version and digest.
    pub(crate) package: PackageReference,
    pub(crate) contents: Contents,
    files: PathBuf,
}

impl PackageStore {
    /// Returns the store of this user.
    ///
    /// # Errors
    /// If there is no home folder.
    pub(crate) fn of_user() -> Result<Self> {
        let missing = || UsageError("there is no home folder for packages; set HOME or XDG_STATE_HOME".to_owned());
        Ok(Self { folder: user_folders::packages().ok_or_else(missing)? })
    }

    /// Installs a package with its dependencies, without running scripts of packages.
    ///
    /// # Errors
    /// If it cannot be installed.
    pub(crate) fn install(&self, package: &PackageReference) -> Result<InstalledPackage> {
        std::fs::create_dir_all(&self.folder)?;
        std::fs::set_permissions(&self.folder, private::folder_permissions())?;
        let new = tempfile::Builder::new().prefix(".new-").tempdir_in(&self.folder)?;
        let files = new.path().join(FILES);
        std::fs::create_dir(&files)?;
        let contents = installer::install(package, &files)?;
        let digest = tree::digest(&files)?;
        let version = Some(contents.version.clone());
        let package = PackageReference { version, digest: Some(digest), ..package.clone() };
        let home = self.folder.join(digest.hex());
        if home.exists() {
            return self.open(&package);
        }
        let snapshot = Snapshot::of(&files)?;
        write_record(new.path(), &Record { package: package.clone(), contents: contents.clone(), snapshot })?;
        std::fs::rename(new.keep(), &home).context("cannot keep the package")?;
        Ok(InstalledPackage { package, contents, files: home.join(FILES) })
    }

    /// Opens an installed package. Its files have the digest that the reference names.
    ///
    /// # Errors
    /// If it is not installed, or its files were changed.
    pub(crate) fn open(&self, package: &PackageReference) -> Result<InstalledPackage> {
        let shown = PackageReference { digest: None, ..package.clone() };
        let again = format!("install it with `fumehood add {shown}`");
        let digest = package.digest.ok_or_else(|| UsageError(format!("{shown} has no digest; {again}")))?;
        let home = self.folder.join(digest.hex());
        let files = home.join(FILES);
        let text = std::fs::read(home.join(RECORD))
            .map_err(|_| UsageError(format!("{shown} is not installed here with this digest; {again}")))?;
        let record: Record = serde_json::from_slice(&text).with_context(|| format!("{} is damaged", home.display()))?;
        let snapshot = Snapshot::of(&files)?;
        if snapshot != record.snapshot {
            verify(&files, digest, &home)?;
            write_record(&home, &Record { snapshot, package: record.package, contents: record.contents.clone() })?;
        }
        Ok(InstalledPackage { package: package.clone(), contents: record.contents, files })
    }
}

fn verify(files: &Path, digest: Digest, home: &Path) -> Result<()> {
    if tree::digest(files)? == digest {
        return Ok(());
    }
    let home = home.display();
    Err(UsageError(format!(
        "the files in {home} were changed after they were installed; remove that folder, and install the package again"
    ))
    .into())
}

fn write_record(home: &Path, record: &Record) -> Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(home)?;
    serde_json::to_writer(&mut file, record)?;
    file.persist(home.join(RECORD))?;
    Ok(())
}

impl InstalledPackage {
    /// Returns the path of one of its programs.
    ///
    /// # Errors
    /// If it has no program of this name.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf> {
        let path = self.files.join(installer::program_path(self.package.registry, name));
        if self.contents.programs.iter().any(|program| program == name) && path.exists() {
            return Ok(path);
        }
        let programs = self.contents.programs.join("`, `");
        let shown = PackageReference { digest: None, ..self.package.clone() };
        Err(UsageError(format!("{shown} has no program `{name}`; it has: `{programs}`")).into())
    }

    /// Returns the name of the program that its name suggests, or of its only one.
    ///
    /// # Errors
    /// If there is none, or which one is meant is not clear.
    pub(crate) fn default_program(&self) -> Result<&str> {
        let programs = &self.contents.programs;
        let suggested = programs.iter().find(|program| *program == self.package.short_name());
        match (suggested, programs.as_slice()) {
            (Some(program), _) => Ok(program),
            (None, [only]) => Ok(only),
            (None, []) => Err(UsageError(format!("{} has no program", self.package.name)).into()),
            (None, several) => {
                let message = format!(
                    "{} has several programs: {}; name one with `--program NAME`",
                    self.package.name,
                    several.join(", ")
                );
                Err(UsageError(message).into())
            }
        }
    }

    /// Returns the variables with which its programs find its files. `home` keeps the compiled code of Python.
    pub(crate) fn environment(&self, home: Option<&Path>) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        match self.package.registry {
            PackageRegistry::Npm => Vec::new(),
            PackageRegistry::Pypi => {
                let cache = home.map(|home| ("PYTHONPYCACHEPREFIX".to_owned(), text(&home.join("pycache"))));
                let files = ("PYTHONPATH".to_owned(), text(&self.files));
                std::iter::once(files).chain(cache).collect()
            }
        }
    }
}
