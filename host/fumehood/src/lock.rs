//! `fumehood.lock`: what was approved, in a file.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fumehood_core::approval::{Approval, Parts, PinError};
use fumehood_core::digest::Digest;
use fumehood_core::name::{NameError, Namespace};
use serde::{Deserialize, Serialize};
use toml::Spanned;

/// The form that this program writes and reads.
const VERSION: u32 = 1;
/// More than this is no lock: a component says at most some megabytes about itself.
const MOST_BYTES: u64 = 64 << 20;
const HEAD: &str = "\
# What was approved, written by `fumehood approve`: not to be edited by hand.
# Every entry is held against its pin, and an entry that does not fit it is refused.
";

/// Approvals, by what the components are called in a host.
///
/// It keeps those from being called that changed since somebody looked at them. It does not keep out somebody who may
/// write the file itself: they could approve things anyway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    path: PathBuf,
    approvals: BTreeMap<Namespace, Approval>,
}

/// Why a lock cannot be used. What it says is all or nothing.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file cannot be read.
    #[error("cannot read the lock {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is a folder, a device, a pipe, or too large.
    #[error("the lock {0} is not a regular file of at most 64 MiB; remove it and approve the tools again")]
    NotALock(PathBuf),
    /// It is not TOML of the right form.
    #[error("the lock {path} is damaged ({message}); restore it, or remove it and approve the tools again")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where, and what is wrong there.
        message: String,
    },
    /// A later program wrote it.
    #[error("the lock {path} has version {found}, and this program knows version {VERSION}; use a newer fumehood")]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A name in it is no name.
    #[error("the lock {path} has an entry with a bad name in line {line}; remove the entry")]
    Name {
        /// Which file.
        path: PathBuf,
        /// Which line of it, from 1 on.
        line: usize,
        /// Why it is none.
        source: NameError,
    },
    /// It has two entries for one name.
    #[error(
        "the lock {path} has a second entry for `{name}` in line {line}; remove one, or approve `{name}` again after \
         removing both"
    )]
    Twice {
        /// Which file.
        path: PathBuf,
        /// Which line of it, from 1 on.
        line: usize,
        /// The name.
        name: Namespace,
    },
    /// An entry was edited.
    #[error(
        "the entry for `{name}` in line {line} of the lock {path} was edited by hand; remove it, and approve `{name}` again"
    )]
    Edited {
        /// Which file.
        path: PathBuf,
        /// Which line of it, from 1 on.
        line: usize,
        /// Whose entry.
        name: Namespace,
        /// The two hashes.
        source: PinError,
    },
    /// It cannot be written. The old one is still there.
    #[error("cannot write the lock {path}; the old one was left as it was")]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<N> {
    version: u32,
    #[serde(default = "Vec::new", rename = "approved")]
    entries: Vec<Entry<N>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<N> {
    /// A text; where it is read from a file, with its place there.
    name: N,
    pin: Digest,
    parts: Parts,
}

/// Only what is needed to tell a later form from a damaged one.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Lock {
    /// Reads the lock at `path`. One that is not there has no approvals in it.
    ///
    /// # Errors
    /// If anything in it is not as it was written.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LockError> {
        let path = path.into();
        let approvals = match text_of(&path)? {
            Some(text) => read(&path, &text)?,
            None => BTreeMap::new(),
        };
        Ok(Self { path, approvals })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was approved under that name.
    #[must_use]
    pub fn get(&self, name: &Namespace) -> Option<&Approval> {
        self.approvals.get(name)
    }

    /// Everything that was approved.
    pub fn iter(&self) -> impl Iterator<Item = (&Namespace, &Approval)> {
        self.approvals.iter()
    }

    /// Approves these parts under that name, instead of what was approved before. Kept with [`Lock::save`].
    pub fn approve(&mut self, name: Namespace, parts: Parts) {
        self.approvals.insert(name, Approval::of(parts));
    }

    /// Takes an approval back. Kept with [`Lock::save`].
    pub fn revoke(&mut self, name: &Namespace) -> bool {
        self.approvals.remove(name).is_some()
    }

    /// Writes the file: beside the old one, which it then replaces. Whoever reads sees one of them, whole.
    ///
    /// # Errors
    /// If it cannot be written; then the old one is still there.
    pub fn save(&self) -> Result<(), LockError> {
        let io = |source| LockError::Write { path: self.path.clone(), source };
        let text = self.text().map_err(|error| io(std::io::Error::other(error)))?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // There is nothing secret in it, and whoever runs the tools has to read it.
        let readable = std::fs::Permissions::from_mode(0o644);
        let mut builder = tempfile::Builder::new();
        let mut file = builder.prefix(".fumehood.lock.").permissions(readable).tempfile_in(folder).map_err(io)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(io)?;
        file.persist(&self.path).map_err(|error| io(error.error))?;
        Ok(())
    }

    fn text(&self) -> Result<String, toml::ser::Error> {
        let entry = |(name, approval): (&Namespace, &Approval)| Entry {
            name: name.to_string(),
            pin: approval.pin(),
            parts: approval.parts().clone(),
        };
        let written = Written { version: VERSION, entries: self.approvals.iter().map(entry).collect() };
        Ok(format!("{HEAD}{}", toml::to_string(&written)?))
    }
}

fn text_of(path: &Path) -> Result<Option<String>, LockError> {
    let io = |source| LockError::Read { path: path.to_owned(), source };
    let refused = || LockError::NotALock(path.to_owned());
    let metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(io)?,
    };
    if !metadata.is_file() {
        return Err(refused());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(io)?.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(refused());
    }
    let not_text = |_| LockError::Damaged { path: path.to_owned(), message: "it is not UTF-8 text".to_owned() };
    String::from_utf8(bytes).map(Some).map_err(not_text)
}

fn read(path: &Path, text: &str) -> Result<BTreeMap<Namespace, Approval>, LockError> {
    let damaged = |error: toml::de::Error| {
        let line = line_of(text, error.span().map_or(0, |span| span.start));
        let message: String = error.message().replace('\n', " ").chars().take(200).collect();
        LockError::Damaged { path: path.to_owned(), message: format!("line {line}: {message}") }
    };
    let found = toml::from_str::<Versioned>(text).map_err(damaged)?.version;
    if found != VERSION {
        return Err(LockError::Version { path: path.to_owned(), found });
    }
    let mut approvals = BTreeMap::new();
    for Entry { name, pin, parts } in toml::from_str::<Written<Spanned<String>>>(text).map_err(damaged)?.entries {
        let (path, line) = (path.to_owned(), line_of(text, name.span().start));
        let name = match Namespace::parse(name.get_ref()) {
            Ok(name) => name,
            Err(source) => return Err(LockError::Name { path, line, source }),
        };
        let edited = |source| LockError::Edited { path: path.clone(), line, name: name.clone(), source };
        let approval = Approval::written(pin, parts).map_err(edited)?;
        if approvals.insert(name.clone(), approval).is_some() {
            return Err(LockError::Twice { path, line, name });
        }
    }
    Ok(approvals)
}

/// The line of the byte at `offset`, from 1 on.
fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or_default().matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(grant: &str) -> Parts {
        Parts::new(Some(Digest::of(b"code")), "0.1.0", vec![grant.to_owned()], &[])
    }

    fn notes() -> Namespace {
        Namespace::parse("notes").unwrap()
    }

    #[test]
    fn what_is_saved_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fumehood.lock");
        let mut lock = Lock::open(&path).unwrap();
        assert_eq!(lock.iter().count(), 0);
        lock.approve(notes(), parts("read = \"./a\nb\":/docs"));
        lock.save().unwrap();
        assert_eq!(Lock::open(&path).unwrap(), lock);
        assert!(lock.revoke(&notes()) && !lock.revoke(&notes()));
        lock.save().unwrap();
        assert_eq!(Lock::open(&path).unwrap().get(&notes()), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_lock_that_was_touched_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fumehood.lock");
        let mut lock = Lock::open(&path).unwrap();
        lock.approve(notes(), parts("state = true"));
        lock.save().unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        let check = |text: &str, expected: &str| {
            std::fs::write(&path, text).unwrap();
            let error = Lock::open(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&good.replace("state = true", "http = everything"), "`notes` in line 6 of the lock");
        check(&good.replace("state = true", "http = everything"), "was edited by hand; remove it, and approve");
        check(&good.replace("name = \"notes\"", "name = \"No tes\""), "an entry with a bad name in line 6");
        check(&good.replace("contract = \"0.1.0\"\n", ""), "is damaged (line");
        check(&good.replace("version = 1", "version = 2"), "has version 2");
        check(&good.replace("version = 1\n", "version = 1\n}"), "is damaged (line 4");
        check(
            &format!("{good}\n{}", good.split_once("\n[[").map(|(_, rest)| format!("[[{rest}")).unwrap()),
            "a second entry for `notes` in line 1",
        );
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(Lock::open(&path), Err(LockError::NotALock(_))));
        assert!(matches!(lock.save(), Err(LockError::Write { .. })));
    }
}
