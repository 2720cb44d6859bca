//! Errors of opening and using a database, with advice for operators.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

/// Errors of opening a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or its folder cannot be created or read.
    #[error("the {database} {path} cannot be opened; check its folder, and that this user may write there")]
    File {
        /// The kind of database that was expected.
        database: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a database of this kind that this release can use.
    #[error("the {database} {path} cannot be used: {reason}")]
    Schema {
        /// The kind of database that was expected.
        database: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: SchemaError,
    },
    /// A PostgreSQL server cannot be reached, or its tables cannot be used.
    #[error("the {database} at {place} cannot be used: {reason}")]
    Server {
        /// The kind of tables that was expected.
        database: &'static str,
        /// The address of the server, without a password.
        place: String,
        /// The reason.
        reason: SchemaError,
    },
    /// The key that seals anchors of an event log is missing or unusable.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The thread that writes an event log, or that speaks with a server, cannot be started.
    #[error("the system starts no thread for the storage")]
    Thread(#[source] io::Error),
}

/// Errors of a database that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The database belongs to another program.
    #[error("it is the database of another program; nothing was changed: choose another path")]
    Foreign,
    /// The database was written by a newer release.
    #[error("it has version {found}, and this release knows versions up to {known}; use a newer release")]
    TooNew {
        /// Its version.
        found: i64,
        /// The newest version that is known.
        known: i64,
    },
    /// The database was written by an older release, and is opened for reading only, which does not migrate it.
    #[error("it has version {found} instead of {known}; open it once for writing, which brings it up to date")]
    TooOld {
        /// Its version.
        found: i64,
        /// The newest version that is known.
        known: i64,
    },
    /// A PostgreSQL database has no tables of this kind, and is opened for reading only, which makes none.
    #[error("it has no such tables; open it once for writing, which makes them, or name another database")]
    NoTables,
    /// An error of the database.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<rusqlite::Error> for SchemaError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error.into())
    }
}

/// An error of the database, with advice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The file or its folder is read-only.
    #[error("the file or its folder is read-only; make both writable for this user, or choose another place")]
    ReadOnly,
    /// The disk is full.
    #[error("the disk is full; free some space, or keep less in the file")]
    Full,
    /// The database is locked by another process.
    #[error("another process holds the database and did not let go in time; end that process, or try again")]
    Locked,
    /// The file is damaged.
    #[error("the file is damaged; nothing was changed: move it away to look into it, and restore a copy")]
    Damaged,
    /// The file is not a database.
    #[error("the file is not a database; nothing was changed: choose another path, or move the file away")]
    NotADatabase,
    /// The file cannot be opened.
    #[error("the file cannot be opened; check that it exists, and that this user may read it and its folder")]
    CannotOpen,
    /// One record exceeds the size limit of the database.
    #[error("the record is too large for the database; cap results before they are recorded")]
    TooLarge,
    /// A server does not answer, with what was noticed.
    #[error("the database server cannot be reached: {0}; start it, or check its address and the network")]
    Unreachable(String),
    /// A server refuses the connection or an operation, with its message.
    #[error("the database server refuses: {0}; check user, password, database and what the user may do there")]
    Refused(String),
    /// A server that only follows another one.
    #[error("the database server takes no writes, as a standby does; name the primary")]
    Standby,
    /// Any other error, with the message of the database.
    #[error("{0}")]
    Other(String),
}

impl From<&rusqlite::Error> for StorageError {
    fn from(error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly) => Self::ReadOnly,
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged,
            Some(ErrorCode::NotADatabase) => Self::NotADatabase,
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Self::CannotOpen,
            Some(ErrorCode::TooBig) => Self::TooLarge,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<rusqlite::Error> for StorageError {
    fn from(error: rusqlite::Error) -> Self {
        Self::from(&error)
    }
}

/// Errors of reading or creating a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key of a log with records is missing.
    #[error(
        "the log has records, but its key {0} is gone, so nobody could tell a forged log from a true one; \
         restore the key from a copy, or move the log away and begin a new one"
    )]
    Missing(PathBuf),
    /// The file does not contain a key.
    #[error("{path} is no key: it has {found} bytes instead of 32 (or 64 hexadecimal digits); restore it from a copy")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its size in bytes, or 1024 for a larger file, which is not read further.
        found: usize,
    },
    /// The file is accessible to users other than its owner, so the seals prove nothing.
    #[error(
        "the key {path} is open to others (mode {mode:o}), who could forge the log with it; close it with \
         `chmod 600 {path}`, and if anybody may have read it, begin a new log with a new key"
    )]
    NotPrivate {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A log in a server has no place beside it for a key, and none was named.
    #[error("a log in PostgreSQL needs a key of this writer's own; name the file that holds it, or shall hold it")]
    Unnamed,
    /// The path is not a regular file.
    #[error("the key {0} is not a regular file; name the file that holds the key")]
    NotAFile(PathBuf),
    /// The file cannot be read or created.
    #[error("the key {path} cannot be read or written; check who owns it and its folder")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The system provides no random bytes.
    #[error("the system gave no random bytes for a new key: {0}")]
    Random(String),
}
