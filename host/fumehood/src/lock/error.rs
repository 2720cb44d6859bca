//! Errors of the lock.

use std::path::PathBuf;

use fumehood_core::policy::approval::PinError;
use fumehood_core::tool::name::{NameError, Namespace};

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
    #[error("the lock {path} has version {found}, but this program supports version {known}; use a newer fumehood")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The latest version that this program knows.
        known: u32,
    },
    /// A name in the file is not valid.
    #[error("the lock {path} has an entry with an invalid name in line {line}; remove the entry")]
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
    #[error("another process has locked {0} for ten seconds; stop it, or try again later")]
    Busy(PathBuf),
    /// This user's approvals have no place to be kept.
    #[error(
        "nothing was approved, because there is no home folder for your approvals; set HOME or XDG_STATE_HOME, or \
         accept {0} with `--accept-lock`"
    )]
    NoUserRecord(PathBuf),
    /// This user's approvals cannot be written.
    #[error(
        "nothing was changed, because your approvals cannot be saved in {record}; make it writable, set \
         XDG_STATE_HOME to a writable folder, or accept {path} with `--accept-lock`"
    )]
    UserRecord {
        /// The lock.
        path: PathBuf,
        /// The file of this user's approvals.
        record: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// An entry cannot be signed.
    #[error("cannot sign the approval of `{name}`: {reason}")]
    Unsigned {
        /// The name of the entry.
        name: Namespace,
        /// The reason.
        reason: String,
    },
    /// The file cannot be written. The old one is unchanged.
    #[error("cannot write the lock {path}; it is unchanged")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}
