//! The use of each day by the tenants of a server: one SQLite file for one server, or for several at once.
//!
//! Amounts are added, so that servers that share the file count together. A completed operation survives a crash of the
//! process. The file is readable by its owner only.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior, params};

use crate::error::{OpenError, SchemaError};
use crate::sqlite::Database;

/// The database of usage, with the application id "FUUS". A released migration must never change.
const DATABASE: Database = Database {
    name: "usage of tenants",
    application_id: 0x4655_5553,
    migrations: &[
        "
        CREATE TABLE days (
            day INTEGER NOT NULL,
            tenant TEXT NOT NULL,
            calls INTEGER NOT NULL CHECK (calls >= 0),
            fuel INTEGER NOT NULL CHECK (fuel >= 0),
            PRIMARY KEY (day, tenant)
        ) STRICT;
    ",
        "ALTER TABLE days ADD COLUMN log_bytes INTEGER NOT NULL DEFAULT 0 CHECK (log_bytes >= 0)",
    ],
    creation_settings: "",
    settings: "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 1048576",
};

/// Maximum time that an operation waits for another process that has locked the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of days that are kept, today included.
const KEPT_DAYS: u64 = 32;

/// The use of one tenant on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantDay {
    /// The number of the day since 1970 (UTC).
    pub day: u64,
    /// The name of the tenant.
    pub tenant: String,
    /// The number of calls.
    pub calls: u64,
    /// The fuel of calls.
    pub fuel: u64,
    /// The bytes that calls wrote to the event log.
    pub log_bytes: u64,
}

/// The error of a file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the usage of tenants in {path}")]
pub struct UsageError {
    path: PathBuf,
    source: SchemaError,
}

/// The usage of tenants in a SQLite file.
pub struct UsageStore {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl fmt::Debug for UsageStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl UsageStore {
    /// Opens a file. A missing one and its folder are created for their owner only (modes 0600 and 0700).
    ///
    /// # Errors
    /// If the file cannot be created or written, is damaged, or belongs to another program. It is not changed then.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let connection = Mutex::new(DATABASE.open_writable(&path, LOCK_TIMEOUT)?);
        Ok(Self { path, connection })
    }

    /// Returns what all tenants used on a day.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self, day: u64) -> Result<Vec<TenantDay>, UsageError> {
        read_day(&self.lock(), day).map_err(|error| self.failed(error))
    }

    /// Adds these amounts, all of them or none. Days that are more than a month before the newest are removed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&self, days: &[TenantDay]) -> Result<(), UsageError> {
        add_days(&mut self.lock(), days).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: rusqlite::Error) -> UsageError {
        UsageError { path: self.path.clone(), source: error.into() }
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A transaction that was not committed is rolled back.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_day(connection: &Connection, day: u64) -> rusqlite::Result<Vec<TenantDay>> {
    let mut statement = connection.prepare_cached("SELECT tenant, calls, fuel, log_bytes FROM days WHERE day = ?1")?;
    let rows = statement.query_map([to_stored(day)], |row| {
        let tenant = row.get(0)?;
        let calls = from_stored(row.get(1)?);
        let fuel = from_stored(row.get(2)?);
        Ok(TenantDay { day, tenant, calls, fuel, log_bytes: from_stored(row.get(3)?) })
    })?;
    rows.collect()
}

fn add_days(connection: &mut Connection, days: &[TenantDay]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for TenantDay { day, tenant, calls, fuel, log_bytes } in days {
        // Amounts that do not fit stay at the largest that does.
        transaction
            .prepare_cached(
                "INSERT INTO days (day, tenant, calls, fuel, log_bytes) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (day, tenant) DO UPDATE SET
                     calls = CASE WHEN calls > 9223372036854775807 - excluded.calls
                         THEN 9223372036854775807 ELSE calls + excluded.calls END,
                     fuel = CASE WHEN fuel > 9223372036854775807 - excluded.fuel
                         THEN 9223372036854775807 ELSE fuel + excluded.fuel END,
                     log_bytes = CASE WHEN log_bytes > 9223372036854775807 - excluded.log_bytes
                         THEN 9223372036854775807 ELSE log_bytes + excluded.log_bytes END",
            )?
            .execute(params![to_stored(*day), tenant, to_stored(*calls), to_stored(*fuel), to_stored(*log_bytes)])?;
    }
    if let Some(newest) = days.iter().map(|day| day.day).max() {
        let oldest = newest.saturating_sub(KEPT_DAYS - 1);
        transaction.execute("DELETE FROM days WHERE day < ?1", [to_stored(oldest)])?;
    }
    transaction.commit()
}

fn to_stored(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

fn from_stored(amount: i64) -> u64 {
    u64::try_from(amount).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(day: u64, tenant: &str, calls: u64, fuel: u64) -> TenantDay {
        TenantDay { day, tenant: tenant.to_owned(), calls, fuel, log_bytes: fuel }
    }

    #[test]
    fn amounts_of_several_processes_are_added() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/usage.db");
        let one = UsageStore::open(&path).unwrap();
        let other = UsageStore::open(&path).unwrap();
        one.add(&[used(20_000, "a", 1, 7), used(20_000, "b", 2, u64::MAX)]).unwrap();
        other.add(&[used(20_000, "a", 2, 3), used(20_000, "b", 0, 9), used(19_999, "a", 5, 5)]).unwrap();
        drop(one);
        assert_eq!(other.read(20_000).unwrap(), [used(20_000, "a", 3, 10), used(20_000, "b", 2, i64::MAX as u64)]);
        assert_eq!(UsageStore::open(&path).unwrap().read(19_999).unwrap(), [used(19_999, "a", 5, 5)]);
        // A month later.
        other.add(&[used(20_031, "a", 1, 1)]).unwrap();
        assert!(other.read(19_999).unwrap().is_empty() && !other.read(20_000).unwrap().is_empty());
    }

    #[test]
    fn a_file_of_another_program_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("usage.db");
        std::fs::write(&path, "not a database, but a text of some length that is kept").unwrap();
        UsageStore::open(&path).unwrap_err();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("not a database"));
    }
}
