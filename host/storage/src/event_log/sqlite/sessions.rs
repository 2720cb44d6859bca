//! Entries of saved sessions in SQLite.

use fumehood_core::saved_session::SessionEntry;
use fumehood_core::time::Timestamp;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, Transaction, params};

use crate::error::StorageError;
use crate::event_log::port::Outcome;
use crate::event_log::row;
use crate::event_log::sessions::{self, SavedSessionInfo};

/// The table, as a migration of the log.
pub(crate) const MIGRATION: &str = "
    CREATE TABLE session_entries (
        session TEXT NOT NULL,
        number INTEGER NOT NULL,
        at INTEGER NOT NULL,
        content TEXT NOT NULL,
        PRIMARY KEY (session, number)
    ) STRICT;
";

/// Returns the entries of a session, in order.
pub(super) fn entries(connection: &Connection, session: &str) -> rusqlite::Result<Vec<SessionEntry>> {
    let mut statement = connection.prepare_cached(
        "SELECT session, number, at, content FROM session_entries WHERE session = ?1 ORDER BY number",
    )?;
    let entry = |row: &Row<'_>| {
        let number = row::from_sql(row.get(1)?);
        let at = Timestamp(row::from_sql(row.get(2)?));
        Ok(SessionEntry { session: row.get(0)?, number, at, content: row.get(3)? })
    };
    statement.query_map([session], entry)?.collect()
}

/// Returns the sessions, the one that changed last first.
pub(super) fn list(connection: &Connection) -> rusqlite::Result<Vec<SavedSessionInfo>> {
    let mut statement = connection.prepare_cached(
        "SELECT session, count(*), sum(octet_length(content)), min(at), max(at) FROM session_entries
         GROUP BY session ORDER BY max(at) DESC, session",
    )?;
    let info = |row: &Row<'_>| {
        Ok(SavedSessionInfo {
            session: row.get(0)?,
            entries: read_number(row, 1)?,
            bytes: read_number(row, 2)?,
            began_at: Timestamp(read_number(row, 3)?),
            changed_at: Timestamp(read_number(row, 4)?),
        })
    };
    statement.query_map([], info)?.collect()
}

fn read_number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(row::from_sql)
}

/// Inserts an entry behind the last one of its session.
pub(super) fn insert(transaction: &Transaction<'_>, entry: &SessionEntry) -> rusqlite::Result<Outcome> {
    let mut statement = transaction
        .prepare_cached("INSERT INTO session_entries (session, number, at, content) VALUES (?1, ?2, ?3, ?4)")?;
    let values = params![entry.session, row::to_sql(entry.number), row::to_sql(entry.at.0), entry.content];
    match statement.execute(values) {
        Ok(_) => Ok(Ok(())),
        // These two errors concern one entry only; the transaction continues.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::TooBig) => {
            Ok(Err(StorageError::TooLarge.to_string()))
        }
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            check_repeated(transaction, entry)
        }
        Err(error) => Err(error),
    }
}

/// Accepts an entry that was sent again after a failure, and rejects that of another process.
fn check_repeated(transaction: &Transaction<'_>, entry: &SessionEntry) -> rusqlite::Result<Outcome> {
    let mut statement =
        transaction.prepare_cached("SELECT content FROM session_entries WHERE session = ?1 AND number = ?2")?;
    let kept = statement.query_row(params![entry.session, row::to_sql(entry.number)], |row| row.get(0));
    let kept: Option<String> = kept.optional()?;
    Ok(sessions::compare_repeated(entry, kept.as_deref()))
}

/// Removes the entries of a session. Returns whether there were any.
pub(super) fn remove(connection: &Connection, session: &str) -> rusqlite::Result<bool> {
    let removed = connection.execute("DELETE FROM session_entries WHERE session = ?1", [session])?;
    Ok(removed > 0)
}
