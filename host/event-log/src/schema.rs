//! The tables of the database, and migrations from older versions.

use rusqlite::{Connection, TransactionBehavior};

use crate::storage_error::StorageError;

/// The application id in the header of an event log: "FUME".
const APPLICATION_ID: i32 = 0x4655_4d45;

/// The migrations from each version to the next. A released migration must never change.
pub(crate) const MIGRATIONS: &[&str] = &["
    CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO meta (name, value) VALUES ('log', randomblob(16));
    CREATE TABLE records (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        parent TEXT,
        session TEXT NOT NULL,
        at INTEGER NOT NULL,
        kind TEXT NOT NULL,
        actor TEXT,
        tool TEXT,
        digest TEXT,
        call TEXT,
        status TEXT,
        body TEXT NOT NULL,
        content BLOB NOT NULL,
        hash BLOB NOT NULL
    ) STRICT;
    CREATE INDEX records_by_session ON records (session);
    CREATE INDEX records_by_kind ON records (kind);
    CREATE INDEX records_by_time ON records (at);
    CREATE INDEX records_by_parent ON records (parent) WHERE parent IS NOT NULL;
    CREATE INDEX records_by_tool ON records (tool) WHERE tool IS NOT NULL;
    CREATE INDEX records_by_call ON records (call) WHERE call IS NOT NULL;
    CREATE TABLE anchors (
        seq INTEGER NOT NULL,
        reason TEXT NOT NULL,
        hash BLOB NOT NULL,
        seal BLOB NOT NULL,
        PRIMARY KEY (seq, reason)
    ) STRICT, WITHOUT ROWID;
"];

/// Errors of a database that cannot be used as an event log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The database belongs to another program.
    #[error("it is the database of another program; nothing was changed: choose another path")]
    NotALog,
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
    /// An error of the database.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<rusqlite::Error> for SchemaError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error.into())
    }
}

/// The contents of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseState {
    /// An empty database.
    Empty,
    /// An event log of this version.
    Version(i64),
}

/// The query of [`inspect`]. It is one statement, and so consistent while another process creates the tables.
const INSPECT_SQL: &str = "
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_application_id, pragma_user_version
";

/// Returns whether a database is an event log, without changing it.
pub(crate) fn inspect(connection: &Connection, known: i64) -> Result<DatabaseState, SchemaError> {
    let (application, found, tables): (i32, i64, i64) =
        connection.query_row(INSPECT_SQL, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    match (application, tables) {
        (0, 0) if found == 0 => Ok(DatabaseState::Empty),
        (APPLICATION_ID, _) if found > known => Err(SchemaError::TooNew { found, known }),
        (APPLICATION_ID, _) => Ok(DatabaseState::Version(found)),
        _ => Err(SchemaError::NotALog),
    }
}

/// Applies the missing migrations in one transaction.
pub(crate) fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), SchemaError> {
    let known = version(migrations);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Inspected again under the lock, because another process may have been faster.
    let found = match inspect(&transaction, known)? {
        DatabaseState::Empty => 0,
        DatabaseState::Version(found) => found,
    };
    let done = usize::try_from(found).unwrap_or(0);
    if done == migrations.len() {
        return Ok(());
    }
    for migration in migrations.iter().skip(done) {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", known)?;
    Ok(transaction.commit()?)
}

/// Returns the version that these migrations lead to.
pub(crate) fn version(migrations: &[&str]) -> i64 {
    i64::try_from(migrations.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrates_an_older_database_and_keeps_its_rows() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();
        let log: Vec<u8> = connection.query_row("SELECT value FROM meta", [], |row| row.get(0)).unwrap();
        let newer = [MIGRATIONS[0], "ALTER TABLE records ADD COLUMN tenant TEXT"];
        migrate(&mut connection, &newer).unwrap();
        assert_eq!(inspect(&connection, 2), Ok(DatabaseState::Version(2)));
        connection.prepare("SELECT tenant FROM records").unwrap();
        migrate(&mut connection, &newer).unwrap();
        let kept: Vec<u8> = connection.query_row("SELECT value FROM meta", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, log);
        assert_eq!(migrate(&mut connection, MIGRATIONS), Err(SchemaError::TooNew { found: 2, known: 1 }));
    }

    #[test]
    fn failed_migration_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();
        let broken = [MIGRATIONS[0], "CREATE TABLE half (a); SELECT nonsense FROM nowhere"];
        migrate(&mut connection, &broken).unwrap_err();
        assert_eq!(inspect(&connection, 2), Ok(DatabaseState::Version(1)));
        connection.prepare("SELECT a FROM half").unwrap_err();
    }
}
