//! This user's approvals of one lock: a file in the user's state folder that decides which entries of the lock count.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use fumehood_core::digest::Digest;
use fumehood_core::tool::name::Namespace;
use fumehood_platform::private;

use super::error::LockError;
use super::file::{Approved, Change, MAX_BYTES, parse_if_there, to_text};

/// Prefix of the hashed location, which separates these digests from those for other purposes.
const LOCATION_CONTEXT: &str = "fumehood approvals 1\n";

/// The approvals that this user gave for the lock at one path. The file has the form of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UserRecord {
    /// `None` without a folder: then nothing of the lock is this user's.
    file: Option<PathBuf>,
    pub(super) approved: Approved,
    /// Approvals of a process that ended between writing them and the lock.
    pending: Approved,
}

impl UserRecord {
    /// Returns the path of the record for the lock at `path`.
    pub(super) fn path_for(folder: &Path, lock: &Path) -> PathBuf {
        let absolute = std::path::absolute(lock).unwrap_or_else(|_| lock.to_owned());
        // A link under the name of the lock is not followed: the entries count for the folder that the lock is in.
        let location = match (absolute.parent().and_then(|folder| folder.canonicalize().ok()), absolute.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => absolute,
        };
        let hashed = [LOCATION_CONTEXT.as_bytes(), location.as_os_str().as_encoded_bytes()].concat();
        folder.join(format!("{}.lock", Digest::of(&hashed).hex()))
    }

    /// Reads the record. `written` is the lock, with its text.
    ///
    /// # Errors
    /// If the record is damaged.
    pub(super) fn read(file: Option<PathBuf>, text: Option<&str>, written: &Approved) -> Result<Self, LockError> {
        let Some(path) = &file else { return Ok(Self { file, ..Self::empty() }) };
        let own = own_text(path);
        if own.is_some() && own.as_deref() == text {
            return Ok(Self { approved: written.clone(), file, pending: Approved::default() });
        }
        let approved = parse_if_there(path, own.as_deref())?;
        let next = next_path(path);
        let pending = parse_if_there(&next, own_text(&next).as_deref())?;
        Ok(Self { file, approved, pending })
    }

    /// Reads the record anew, for other processes may have changed it.
    ///
    /// # Errors
    /// If the record is damaged.
    pub(super) fn read_again(&mut self, text: Option<&str>, written: &Approved) -> Result<(), LockError> {
        *self = Self::read(self.file.take(), text, written)?;
        Ok(())
    }

    fn empty() -> Self {
        Self { file: None, approved: Approved::default(), pending: Approved::default() }
    }

    /// Returns whether this user approved an entry of this name and pin.
    pub(super) fn has(&self, name: &Namespace, pin: Digest) -> bool {
        self.approved.has(name, pin) || self.pending.has(name, pin)
    }

    pub(super) fn apply(&mut self, change: Change) {
        if let Change::Revoke(_) = &change {
            self.pending.apply(change.clone());
        }
        self.approved.apply(change);
    }

    /// Writes the changes, before those of the lock at `path`: revocations are in effect at once, and approvals as soon as
    /// the lock has them. `before` is the lock as it was.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub(super) fn prepare(&mut self, path: &Path, before: &Approved, changes: &[Change]) -> Result<(), LockError> {
        let Some(file) = self.file.clone() else {
            let is_harmless = changes.iter().all(|change| matches!(change, Change::Revoke(_)));
            return if is_harmless { Ok(()) } else { Err(LockError::NoUserRecord(path.to_owned())) };
        };
        let stored = self.approved.clone();
        self.adopt_pending(before);
        let revocations = changes.iter().filter(|change| matches!(change, Change::Revoke(_)));
        revocations.cloned().for_each(|change| self.approved.apply(change));
        if self.approved != stored {
            self.write(path, &file)?;
        }
        changes.iter().cloned().for_each(|change| self.approved.apply(change));
        self.write(path, &next_path(&file))
    }

    /// Keeps what [`Self::prepare`] wrote, after the lock was written.
    ///
    /// # Errors
    /// If the record cannot be replaced.
    pub(super) fn commit(&self, path: &Path) -> Result<(), LockError> {
        let Some(file) = &self.file else { return Ok(()) };
        // Its text is that of the lock where all of that is this user's, which spares reading both.
        std::fs::rename(next_path(file), file).map_err(|source| write_error(path, file, source))
    }

    /// Takes the approvals that a process which was killed had written, as far as the lock has them.
    fn adopt_pending(&mut self, lock: &Approved) {
        let pending = std::mem::take(&mut self.pending);
        for (name, approval) in pending.approvals {
            if lock.has(&name, approval.pin()) {
                self.approved.approvals.insert(name, approval);
            }
        }
        for (name, entry) in pending.entries {
            if lock.has(&name, entry.pin()) {
                self.approved.entries.insert(name, entry);
            }
        }
    }

    fn write(&self, path: &Path, file: &Path) -> Result<(), LockError> {
        let failed = |source| write_error(path, file, source);
        let text = to_text(&self.approved).map_err(|error| failed(std::io::Error::other(error)))?;
        let folder = file.parent().unwrap_or(Path::new("."));
        private::create_folders(folder).map_err(failed)?;
        let mut new = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        new.write_all(text.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(failed)?;
        new.persist(file).map(drop).map_err(|error| failed(error.error))
    }
}

fn next_path(file: &Path) -> PathBuf {
    file.with_extension("next")
}

fn write_error(lock: &Path, record: &Path, source: std::io::Error) -> LockError {
    LockError::UserRecord { path: lock.to_owned(), record: record.to_owned(), source }
}

/// Reads a record that only this user can have written; `None` for any other.
fn own_text(path: &Path) -> Option<String> {
    let metadata = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    if !private::is_own(&metadata) || private::is_writable_by_others(&metadata) {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}
