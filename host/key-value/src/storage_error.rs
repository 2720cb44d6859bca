//! SQLite's errors, with advice for operators.

use rusqlite::ErrorCode;

/// An error of the database, with advice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The file or its folder is read-only.
    #[error("the file or its folder is read-only; make both writable for this user, or choose another place")]
    ReadOnly,
    /// The disk is full.
    #[error("the disk is full; free some space")]
    Full,
    /// The file is locked by another process.
    #[error("another process holds the file and did not let go in time; end that process, or try again")]
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
    /// Any other error, with SQLite's message.
    #[error("{0}")]
    Other(String),
}

impl From<rusqlite::Error> for StorageError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly) => Self::ReadOnly,
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged,
            Some(ErrorCode::NotADatabase) => Self::NotADatabase,
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Self::CannotOpen,
            _ => Self::Other(error.to_string()),
        }
    }
}
