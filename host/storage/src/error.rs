//! Errors of opening and using a database, with advice for operators.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

/// Errors of opening a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or its folder cannot be created or read.
    #[error("cannot open the {database} {path}; check its folder, and that this user may write there")]
    File {
        /// The kind of database that was expected.
        database: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a database of this kind that this release can use.
    #[error("cannot use the {database} {path}: {reason}")]
    Schema {
        /// The kind of database that was expected.
        database: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: SchemaError,
    },
    /// A PostgreSQL server cannot be reached, or its tables cannot be used.
    #[error("cannot use the {database} at {place}: {reason}")]
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
    #[error("cannot start a thread for the storage")]
    Thread(#[source] io::Error),
}

/// Errors of a database that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The database belongs to another program.
    #[error("it belongs to another program; nothing was changed; choose another path")]
    Foreign,
    /// The database was written by a newer release.
    #[error("it has version {found}, but this release supports versions up to {known}; use a newer release")]
    TooNew {
        /// Its version.
        found: i64,
        /// The newest version that is known.
        known: i64,
    },
    /// The database was written by an older release, and is opened for reading only, which does not migrate it.
    #[error("it has version {found} instead of {known}; open it once for writing to upgrade it")]
    TooOld {
        /// Its version.
        found: i64,
        /// The newest version that is known.
        known: i64,
    },
    /// A PostgreSQL database has no tables of this kind, and is opened for reading only, which makes none.
    #[error("it does not have the tables; open it once for writing to create them, or use another database")]
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
    #[error("another process has locked the database; stop it, or try again")]
    Locked,
    /// The file is damaged.
    #[error("the file is damaged; nothing was changed; move it away, and restore a backup")]
    Damaged,
    /// The file is not a database.
    #[error("the file is not a database; nothing was changed; choose another path, or move the file away")]
    NotADatabase,
    /// The file cannot be opened.
    #[error("cannot open the file; check that it exists, and that this user may read it and its folder")]
    CannotOpen,
    /// One record exceeds the size limit of the database.
    #[error("the record is too large for the database; cap results before they are recorded")]
    TooLarge,
    /// A server does not answer, with what was noticed.
    #[error("cannot reach the database server: {0}; start it, or check its address and the network")]
    Unreachable(String),
    /// A server refuses the connection or an operation, with its message.
    #[error("the database server refused the connection: {0}; check user, password, database and permissions")]
    Refused(String),
    /// A server that only follows another one.
    #[error("the database server is read-only, like a standby; use the primary")]
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
        "the log has records, but its key {0} is missing, so forged records could not be detected; restore the key \
         from a backup, or move the log away and start a new one"
    )]
    Missing(PathBuf),
    /// The file does not contain a key.
    #[error(
        "{path} is not a key: it has {found} bytes instead of 32 (or 64 hexadecimal digits); restore it from a backup"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its size in bytes, or 1024 for a larger file, which is not read further.
        found: usize,
    },
    /// The file is accessible to users other than its owner, so the seals prove nothing.
    #[error(
        "other users can read the key {path} (mode {mode:o}) and could forge the log; run `chmod 600 {path}`, and if \
         it may have been read, start a new log with a new key"
    )]
    NotPrivate {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A log in a server has no place beside it for a key, and none was named.
    #[error(
        "a log in PostgreSQL needs a separate key for this writer; name its file, which is created if it is missing"
    )]
    Unnamed,
    /// The path is not a regular file.
    #[error("the key {0} is not a regular file")]
    NotAFile(PathBuf),
    /// The file cannot be read or created.
    #[error("cannot read or write the key {path}; check the owner of the file and its folder")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The system provides no random bytes.
    #[error("the system returned no random bytes for a new key: {0}")]
    Random(String),
}
