//! The files of an installed package: their digest, and a cheap check that nobody changed them since it was computed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::Metadata;
use std::path::{Component, Path};

use anyhow::{Context as _, Result, bail};
use fumehood::Digest;
use fumehood_platform::files::{FileStamp, is_executable};
use serde::{Deserialize, Serialize};

/// Maximum number of files of a package with its dependencies.
const MAX_FILES: usize = 200_000;

/// What the file system says of each file. A change of a file changes it, and a program of this user cannot set it back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Snapshot(BTreeMap<String, String>);

impl Snapshot {
    /// Looks at all files below a folder, without reading them.
    pub(super) fn of(folder: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        walk(folder, "", &mut |path, _, metadata| {
            let FileStamp { id, bytes, written, changed } = FileStamp::from(metadata);
            files.insert(path.to_owned(), format!("{id:?} {bytes} {written:?} {changed:?}"));
            Ok(())
        })?;
        Ok(Self(files))
    }
}

/// Computes the digest of all files below a folder: of their paths, contents, and whether they are programs.
///
/// # Errors
/// If a file cannot be read, or a link leads out of the folder.
pub(super) fn digest(folder: &Path) -> Result<Digest> {
    let mut list = String::new();
    walk(folder, "", &mut |path, file, metadata| {
        let line = if metadata.is_symlink() {
            let target = file.read_link()?;
            check_link(path, &target)?;
            format!("link {} {}", Digest::of(target.as_os_str().as_encoded_bytes()).hex(), path)
        } else if metadata.is_dir() {
            format!("folder {path}")
        } else if metadata.is_file() {
            let kind = if is_executable(file) { "program" } else { "file" };
            format!("{kind} {} {path}", Digest::of(&std::fs::read(file)?).hex())
        } else {
            bail!("{path} is neither a file nor a folder");
        };
        writeln!(list, "{line}").context("cannot list the files")
    })?;
    Ok(Digest::of(list.as_bytes()))
}

/// Refuses a link that leads out of the package, as far as its text shows.
fn check_link(path: &str, target: &Path) -> Result<()> {
    let mut depth = Path::new(path).components().count().saturating_sub(1);
    for component in target.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::CurDir => {}
            _ => bail!("the link {path} leads out of the package, to {}", target.display()),
        }
    }
    Ok(())
}

type Visit<'v> = &'v mut dyn FnMut(&str, &Path, &Metadata) -> Result<()>;

/// Visits everything below a folder, in the order of names. Links are not followed.
fn walk(folder: &Path, below: &str, visit: Visit<'_>) -> Result<()> {
    let mut entries = BTreeMap::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().filter(|name| !name.contains('\n'));
        let name = name.with_context(|| format!("the name of {} cannot be written", entry.path().display()))?;
        entries.insert(name, entry.path());
        if entries.len() > MAX_FILES {
            bail!("{} has more than {MAX_FILES} files", folder.display());
        }
    }
    for (name, path) in entries {
        let shown = if below.is_empty() { name } else { format!("{below}/{name}") };
        let metadata = path.symlink_metadata()?;
        visit(&shown, &path, &metadata)?;
        if metadata.is_dir() {
            walk(&path, &shown, visit)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_a_file_changes_the_digest_and_the_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("a")).unwrap();
        std::fs::write(at("a/b"), "1").unwrap();
        std::os::unix::fs::symlink("b", at("a/link")).unwrap();
        let found = || (digest(folder.path()).unwrap(), Snapshot::of(folder.path()).unwrap());
        let mut last = found();
        assert_eq!(found(), last);
        type Change<'c> = (&'c str, &'c dyn Fn());
        let changes: [Change<'_>; 5] = [
            ("content", &|| std::fs::write(at("a/b"), "2").unwrap()),
            ("name", &|| std::fs::rename(at("a/b"), at("a/c")).unwrap()),
            ("new file", &|| std::fs::write(at("d"), "").unwrap()),
            ("new folder", &|| std::fs::create_dir(at("e")).unwrap()),
            ("link", &|| {
                std::fs::remove_file(at("a/link")).unwrap();
                std::os::unix::fs::symlink("../a/c", at("a/link")).unwrap();
            }),
        ];
        for (what, change) in changes {
            change();
            let now = found();
            assert!(now.0 != last.0 && now.1 != last.1, "{what}");
            last = now;
        }
    }

    #[test]
    fn links_do_not_lead_out_of_a_package() {
        for (path, target, is_inside) in
            [("a/l", "../b", true), ("a/l", "../../b", false), ("l", "/etc", false), ("a/l", "b/../../c", true)]
        {
            assert_eq!(check_link(path, Path::new(target)).is_ok(), is_inside, "{path} {target}");
        }
    }
}
