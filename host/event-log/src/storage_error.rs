//! What SQLite's errors mean to a person, and what to do about them.

use rusqlite::ErrorCode;

/// Why the database does not do what is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// Nothing may be written there.
    #[error("the file or its folder is read-only; make both writable for this user, or choose another place")]
    ReadOnly,
    /// The disk is full.
    #[error("the disk is full; free some space, or let the log keep less")]
    Full,
    /// Somebody else holds the database.
    #[error("another process holds the database and did not let go in time; end that process, or try again")]
    Locked,
    /// SQLite finds the file broken.
    #[error("the file is damaged; nothing was changed: move it away to look into it, and restore a copy")]
    Damaged,
    /// The file is something else.
    #[error("the file is not a database; nothing was changed: choose another path, or move the file away")]
    NotADatabase,
    /// The file cannot be opened at all.
    #[error("the file cannot be opened; check that it exists, and that this user may read it and its folder")]
    CannotOpen,
    /// One record is larger than the database takes.
    #[error("the record is too large for the database; cap results before they are recorded")]
    TooLarge,
    /// Something else, in SQLite's words.
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
