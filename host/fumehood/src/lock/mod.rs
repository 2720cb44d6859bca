//! The lock: a file, `fumehood.lock`, with the approvals of an operator.

pub(crate) mod approval_check;

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fumehood_core::digest::Digest;
use fumehood_core::policy::approval::{Approval, ApprovalNote, Entry, Manifest, PinError};
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;
use fumehood_core::tool::name::{NameError, Namespace};
use serde::{Deserialize, Serialize};
use toml::Spanned;

/// The version of the format that this program writes. It reads earlier ones, too.
const VERSION: u32 = 3;
/// Maximum wait for another process that is writing.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Interval of the checks whether that process has finished.
const POLL: Duration = Duration::from_millis(10);
/// Maximum size of a lock, in bytes. The definitions of a component have a few megabytes at most.
const MAX_BYTES: u64 = 64 << 20;
const HEAD: &str = "\
# What was approved, written by `fumehood approve`: not to be edited by hand.
# Every entry is held against its pin, and an entry that does not fit it is refused.
";

/// Approvals, by the names of components and servers in a host.
///
/// A lock prevents calls of components that have changed since an operator approved them. It does not protect against
/// users who may write the file itself: they could approve components anyway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    path: PathBuf,
    approved: Approved,
    /// Changes since the file was read that are not in it yet.
    unsaved: Vec<Change>,
}

/// The content of a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Approved {
    approvals: BTreeMap<Namespace, Approval>,
    entries: BTreeMap<Namespace, Entry>,
}

/// One change of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Approve(Namespace, Box<Approval>),
    ApproveEntry(Namespace, Entry),
    Revoke(Namespace),
}

impl Approved {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Approve(name, approval) => drop(self.approvals.insert(name, *approval)),
            Change::ApproveEntry(name, entry) => drop(self.entries.insert(name, entry)),
            Change::Revoke(name) => {
                self.approvals.remove(&name);
                self.entries.remove(&name);
            }
        }
    }
}

/// Errors of reading and writing a lock. A lock is read as a whole or not at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The file cannot be read.
    #[error("cannot read the lock {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The path is that of a folder, a device or a pipe, or the file is too large.
    #[error("the lock {0} is not a regular file of at most 64 MiB; remove it and approve the tools again")]
    NotALock(PathBuf),
    /// The file is not TOML of the expected form.
    #[error("the lock {path} is damaged ({message}); restore it, or remove it and approve the tools again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error and its line.
        message: String,
    },
    /// The file was written by a later version of this program.
    #[error("the lock {path} has version {found}, and this program knows version {VERSION}; use a newer fumehood")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A name in the file is not valid.
    #[error("the lock {path} has an entry with a bad name in line {line}; remove the entry")]
    Name {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// The error of the name.
        source: NameError,
    },
    /// The file has two entries for one name.
    #[error(
        "the lock {path} has a second entry for `{name}` in line {line}; remove one, or approve `{name}` again after \
         removing both"
    )]
    Twice {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// The name.
        name: Namespace,
    },
    /// An entry was edited.
    #[error(
        "the entry for `{name}` in line {line} of the lock {path} was edited by hand; remove it, and approve `{name}` again"
    )]
    Edited {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// The name of the entry.
        name: Namespace,
        /// The two hashes.
        source: PinError,
    },
    /// Another process holds the lock for longer than ten seconds.
    #[error("another process has held the lock {0} for ten seconds; end it, or try again when it is done")]
    Busy(PathBuf),
    /// The file cannot be written. The old one is unchanged.
    #[error("cannot write the lock {path}; the old one was left as it was")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<N> {
    version: u32,
    #[serde(default = "Vec::new", rename = "approved")]
    approvals: Vec<WrittenApproval<N>>,
    #[serde(default = "Vec::new", rename = "servers", skip_serializing_if = "Vec::is_empty")]
    entries: Vec<WrittenEntry<N>>,
}

/// The approved way to start or reach a server.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenEntry<N> {
    name: N,
    pin: Digest,
    lines: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenApproval<N> {
    /// The name as text, with its position if it is read from a file.
    name: N,
    pin: Digest,
    /// Its approver and the time in milliseconds since 1970, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<PrintableText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    parts: Manifest,
}

/// The version alone, to distinguish a later format from a damaged file.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Lock {
    /// Reads the lock at `path`. A missing file is a lock without approvals.
    ///
    /// # Errors
    /// If the file cannot be read, is not a lock, or was edited by hand.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LockError> {
        let path = path.into();
        let approved = read_if_there(&path)?;
        Ok(Self { path, approved, unsaved: Vec::new() })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the approval of the component or server with that name.
    #[must_use]
    pub fn get(&self, name: &Namespace) -> Option<&Approval> {
        self.approved.approvals.get(name)
    }

    /// Returns all approvals, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Namespace, &Approval)> {
        self.approved.approvals.iter()
    }

    /// Returns the approved way to start or reach the server of that name.
    #[must_use]
    pub fn entry(&self, name: &Namespace) -> Option<&Entry> {
        self.approved.entries.get(name)
    }

    /// Returns the approved ways to start or reach servers, sorted by name.
    pub fn entries(&self) -> impl Iterator<Item = (&Namespace, &Entry)> {
        self.approved.entries.iter()
    }

    /// Approves these parts under that name, in place of an earlier approval. [`Lock::save`] writes it to the file.
    pub fn approve(&mut self, name: Namespace, parts: Manifest) {
        self.change(Change::Approve(name, Box::new(Approval::new(parts))));
    }

    /// Like [`Self::approve`], and keeps by whom and when.
    pub fn approve_with_note(&mut self, name: Namespace, parts: Manifest, note: ApprovalNote) {
        self.change(Change::Approve(name, Box::new(Approval::new(parts).with_note(Some(note)))));
    }

    /// Approves the way to start or reach the server of that name. [`Lock::save`] writes it to the file.
    pub fn approve_entry(&mut self, name: Namespace, entry: Entry) {
        self.change(Change::ApproveEntry(name, entry));
    }

    /// Revokes the approval under that name, and that of the way to start or reach the server. Returns whether there
    /// was one. [`Lock::save`] writes it to the file.
    pub fn revoke(&mut self, name: &Namespace) -> bool {
        let was_there = self.get(name).is_some() || self.entry(name).is_some();
        self.change(Change::Revoke(name.clone()));
        was_there
    }

    fn change(&mut self, change: Change) {
        self.approved.apply(change.clone());
        self.unsaved.push(change);
    }

    /// Applies the changes to the file as it is now, so that changes of other processes are kept. The new file is
    /// written beside the old one and then renamed over it, so that a reader always sees a complete file.
    ///
    /// # Errors
    /// If the file cannot be read again, another process holds it for ten seconds, or it cannot be written. The old
    /// file is then unchanged.
    pub fn save(&mut self) -> Result<(), LockError> {
        let _held = self.hold()?;
        let mut approved = read_if_there(&self.path)?;
        self.unsaved.iter().cloned().for_each(|change| approved.apply(change));
        self.write(&approved)?;
        (self.approved, self.unsaved) = (approved, Vec::new());
        Ok(())
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Prevents other processes from writing, with a lock on the folder: the file itself is replaced with each change.
    fn hold(&self) -> Result<File, LockError> {
        let io = |source| LockError::Write { path: self.path.clone(), source };
        let folder = File::open(self.folder()).map_err(io)?;
        let started = Instant::now();
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(folder),
                Err(TryLockError::WouldBlock) if started.elapsed() < MAX_WAIT => std::thread::sleep(POLL),
                Err(TryLockError::WouldBlock) => return Err(LockError::Busy(self.path.clone())),
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
        }
    }

    fn write(&self, approved: &Approved) -> Result<(), LockError> {
        let io = |source| LockError::Write { path: self.path.clone(), source };
        let text = text(approved).map_err(|error| io(std::io::Error::other(error)))?;
        // Readable by all: it has no secrets, and every user who runs the tools has to read it.
        let readable = fumehood_platform::private::readable_permissions();
        let mut builder = tempfile::Builder::new();
        let mut file =
            builder.prefix(".fumehood.lock.").permissions(readable).tempfile_in(self.folder()).map_err(io)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(io)?;
        file.persist(&self.path).map_err(|error| io(error.error))?;
        Ok(())
    }
}

fn text(approved: &Approved) -> Result<String, toml::ser::Error> {
    let approval = |(name, approval): (&Namespace, &Approval)| WrittenApproval {
        name: name.to_string(),
        pin: approval.pin(),
        by: approval.note().and_then(|note| note.by.clone()),
        at: approval.note().map(|note| note.at),
        parts: approval.manifest().clone(),
    };
    let entry = |(name, entry): (&Namespace, &Entry)| WrittenEntry {
        name: name.to_string(),
        pin: entry.pin(),
        lines: entry.lines().to_vec(),
    };
    let written = Written {
        version: VERSION,
        approvals: approved.approvals.iter().map(approval).collect(),
        entries: approved.entries.iter().map(entry).collect(),
    };
    Ok(format!("{HEAD}{}", toml::to_string(&written)?))
}

fn read_if_there(path: &Path) -> Result<Approved, LockError> {
    match text_of(path)? {
        Some(text) => read(path, &text),
        None => Ok(Approved::default()),
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
    File::open(path).map_err(io)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refused());
    }
    let not_text = |_| LockError::Damaged { path: path.to_owned(), message: "it is not UTF-8 text".to_owned() };
    String::from_utf8(bytes).map(Some).map_err(not_text)
}

fn read(path: &Path, text: &str) -> Result<Approved, LockError> {
    let damaged = |error: toml::de::Error| {
        let line = line_of(text, error.span().map_or(0, |span| span.start));
        let message: String = error.message().replace('\n', " ").chars().take(200).collect();
        LockError::Damaged { path: path.to_owned(), message: format!("line {line}: {message}") }
    };
    let found = toml::from_str::<Versioned>(text).map_err(damaged)?.version;
    if found == 0 || found > VERSION {
        return Err(LockError::Version { path: path.to_owned(), found });
    }
    let Written { approvals, entries, .. } = toml::from_str::<Written<Spanned<String>>>(text).map_err(damaged)?;
    let mut approved = Approved::default();
    for WrittenApproval { name, pin, by, at, parts } in approvals {
        let note = at.map(|at| ApprovalNote { by, at });
        let approval = Approval::from_parts(pin, parts).map(|approval| approval.with_note(note));
        add(&mut approved.approvals, (path, text), &name, approval)?;
    }
    for WrittenEntry { name, pin, lines } in entries {
        add(&mut approved.entries, (path, text), &name, Entry::from_parts(pin, lines))?;
    }
    Ok(approved)
}

/// Adds an entry of a lock, after a check of its name and its pin.
fn add<T>(
    to: &mut BTreeMap<Namespace, T>,
    (path, text): (&Path, &str),
    name: &Spanned<String>,
    found: Result<T, PinError>,
) -> Result<(), LockError> {
    let (path, line) = (path.to_owned(), line_of(text, name.span().start));
    let name = match Namespace::parse(name.get_ref()) {
        Ok(name) => name,
        Err(source) => return Err(LockError::Name { path, line, source }),
    };
    let edited = |source| LockError::Edited { path: path.clone(), line, name: name.clone(), source };
    if to.insert(name.clone(), found.map_err(edited)?).is_some() {
        return Err(LockError::Twice { path, line, name });
    }
    Ok(())
}

/// Returns the line of the byte at `offset`, from 1 on.
fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or_default().matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(grant: &str) -> Manifest {
        Manifest::new(Some(Digest::of(b"code")), "0.1.0", vec![grant.to_owned()], &[])
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
    fn the_approver_is_kept_and_changes_no_pin() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fumehood.lock");
        let mut lock = Lock::open(&path).unwrap();
        lock.approve(notes(), parts("state = true"));
        let pin = lock.get(&notes()).unwrap().pin();
        let note = ApprovalNote { by: Some("ann\u{202e}".into()), at: Timestamp(1_700_000_000_000) };
        lock.approve_with_note(notes(), parts("state = true"), note.clone());
        lock.save().unwrap();
        let read = Lock::open(&path).unwrap();
        assert_eq!(read, lock);
        let approval = read.get(&notes()).unwrap();
        assert_eq!((approval.pin(), approval.note()), (pin, Some(&note)));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("at = 1700000000000\n") && text.contains("ann"), "{text}");
        // A lock of an earlier version has neither.
        let old: Vec<&str> =
            text.lines().filter(|line| !line.starts_with("by =") && !line.starts_with("at =")).collect();
        std::fs::write(&path, old.join("\n").replace("version = 3", "version = 2")).unwrap();
        assert_eq!(Lock::open(&path).unwrap().get(&notes()).unwrap().note(), None);
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
        check(&good.replace("version = 3", "version = 4"), "has version 4");
        check(&good.replace("version = 3\n", "version = 3\n}"), "is damaged (line 4");
        check(
            &format!("{good}\n{}", good.split_once("\n[[").map(|(_, rest)| format!("[[{rest}")).unwrap()),
            "a second entry for `notes` in line 1",
        );
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(Lock::open(&path), Err(LockError::NotALock(_))));
        assert!(matches!(lock.save(), Err(LockError::NotALock(_))));
    }

    fn entry(line: &str) -> Entry {
        Entry::new(vec![line.to_owned()])
    }

    #[test]
    fn the_entry_of_a_server_is_kept_beside_its_tools() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fumehood.lock");
        let mut lock = Lock::open(&path).unwrap();
        lock.approve(notes(), parts("run: [\"a\"]"));
        lock.approve_entry(notes(), entry("run: [\"a\"]"));
        lock.save().unwrap();
        let read = Lock::open(&path).unwrap();
        assert_eq!(read, lock);
        assert_eq!(read.entry(&notes()), Some(&entry("run: [\"a\"]")));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("lines = ['run: [\"a\"]']", "lines = ['run: [\"b\"]']")).unwrap();
        assert!(matches!(Lock::open(&path), Err(LockError::Edited { .. })));
        std::fs::write(&path, &text).unwrap();
        assert!(lock.revoke(&notes()));
        lock.save().unwrap();
        assert_eq!(Lock::open(&path).unwrap().entry(&notes()), None);
    }

    #[test]
    fn a_lock_of_the_first_version_approves_no_entry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fumehood.lock");
        let mut lock = Lock::open(&path).unwrap();
        lock.approve(notes(), parts("run: [\"a\"]"));
        lock.save().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("version = 3", "version = 1")).unwrap();
        let read = Lock::open(&path).unwrap();
        assert!(read.get(&notes()).is_some() && read.entry(&notes()).is_none());
    }

    #[test]
    fn changes_of_two_that_read_the_same_lock_are_both_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fumehood.lock");
        let other = Namespace::parse("other").unwrap();
        let mut one = Lock::open(&path).unwrap();
        one.approve(notes(), parts("state = true"));
        one.save().unwrap();
        let (mut revokes, mut approves) = (Lock::open(&path).unwrap(), Lock::open(&path).unwrap());
        revokes.revoke(&notes());
        revokes.save().unwrap();
        approves.approve(other.clone(), parts("state = true"));
        approves.save().unwrap();
        assert_eq!(approves.get(&notes()), None, "a revocation of another process is not undone");
        let read = Lock::open(&path).unwrap();
        assert!(read.get(&notes()).is_none() && read.get(&other).is_some());
    }
}
