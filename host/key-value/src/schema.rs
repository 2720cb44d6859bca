//! The tables, and whether a file has them.

use rusqlite::{Connection, TransactionBehavior};

use crate::storage_error::StorageError;

/// Marks a file as a store of keys and values in its header: "FUKV".
const APPLICATION: i32 = 0x4655_4b56;

/// The version of [`TABLES`]. A version that was released is never changed again.
const VERSION: i64 = 1;

/// `kept` is what the owner's entries count for, so that a step need not add them all up.
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

/// One statement, and so one moment: another process may be making the tables.
const LOOK: &str = "
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_application_id, pragma_user_version
";

/// Why a file is not taken for a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It belongs to another program.
    #[error("it is the database of another program; nothing was changed: choose another path")]
    NotAStore,
    /// A newer release wrote it.
    #[error("it has version {found}, and this release knows version {VERSION}; use a newer release")]
    TooNew {
        /// Its version.
        found: i64,
    },
    /// The file does not do what is asked.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<rusqlite::Error> for SchemaError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error.into())
    }
}

/// What is in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing yet.
    Empty,
    /// A store of this version.
    Store,
}

/// Looks, without a change, whether a file is a store.
pub(crate) fn inspect(connection: &Connection) -> Result<Found, SchemaError> {
    let (application, found, tables): (i32, i64, i64) =
        connection.query_row(LOOK, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    match (application, found, tables) {
        (0, 0, 0) => Ok(Found::Empty),
        (APPLICATION, VERSION, _) => Ok(Found::Store),
        (APPLICATION, found, _) if found > VERSION => Err(SchemaError::TooNew { found }),
        _ => Err(SchemaError::NotAStore),
    }
}

/// Makes the tables, all of them or none.
pub(crate) fn create(connection: &mut Connection) -> Result<(), SchemaError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Looked at again, because another process may have been faster.
    if inspect(&transaction)? == Found::Empty {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(transaction.commit()?)
}
