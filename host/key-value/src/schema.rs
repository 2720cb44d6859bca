//! The tables of the database.

use rusqlite::{Connection, TransactionBehavior};

use crate::storage_error::StorageError;

/// The application id in the header of a key-value store: "FUKV".
const APPLICATION_ID: i32 = 0x4655_4b56;

/// The version of [`TABLES`]. The tables of a released version must never change.
const VERSION: i64 = 1;

/// The tables. `kept` is the number of bytes that the owner's entries count for, so that an operation need not add them
/// up.
const TABLES: &str = "
    CREATE TABLE owners (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        kept INTEGER NOT NULL CHECK (kept >= 0)
    ) STRICT;
    CREATE TABLE entries (
        id INTEGER PRIMARY KEY,
        owner INTEGER NOT NULL REFERENCES owners (id),
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        UNIQUE (owner, key)
    ) STRICT;
";

/// The query of [`inspect`]. It is one statement, and so consistent while another process creates the tables.
const INSPECT_SQL: &str = "
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_application_id, pragma_user_version
";

/// Errors of a file that cannot be used as a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The file belongs to another program.
    #[error("it is the database of another program; nothing was changed: choose another path")]
    NotAStore,
    /// The file was written by a newer release.
    #[error("it has version {found}, and this release knows version {VERSION}; use a newer release")]
    TooNew {
        /// Its version.
        found: i64,
    },
    /// An error of the database.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<rusqlite::Error> for SchemaError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error.into())
    }
}

/// The contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseState {
    /// An empty file.
    Empty,
    /// A store of this version.
    Store,
}

/// Returns whether a file is a store, without changing it.
pub(crate) fn inspect(connection: &Connection) -> Result<DatabaseState, SchemaError> {
    let (application, found, tables): (i32, i64, i64) =
        connection.query_row(INSPECT_SQL, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    match (application, found, tables) {
        (0, 0, 0) => Ok(DatabaseState::Empty),
        (APPLICATION_ID, VERSION, _) => Ok(DatabaseState::Store),
        (APPLICATION_ID, found, _) if found > VERSION => Err(SchemaError::TooNew { found }),
        _ => Err(SchemaError::NotAStore),
    }
}

/// Creates the tables in one transaction.
pub(crate) fn create(connection: &mut Connection) -> Result<(), SchemaError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Inspected again under the lock, because another process may have been faster.
    if inspect(&transaction)? == DatabaseState::Empty {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(transaction.commit()?)
}
