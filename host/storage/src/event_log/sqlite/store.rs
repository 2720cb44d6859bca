//! Rows and anchors in SQLite, written in one transaction.

use fumehood_core::record::Record;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params, params_from_iter};

use super::{columns, sessions};
use crate::error::StorageError;
use crate::event_log::anchor::{self, Sealer, reason};
use crate::event_log::chain::{self, Hash, LogId, Mark};
use crate::event_log::port::Outcome;
use crate::event_log::queue::Rows;
use crate::event_log::row::{self, CELLS};
use crate::sqlite::Database;

/// The database of an event log, with the application id "FUME". A released migration must never change.
pub(crate) const DATABASE: Database = Database {
    name: "event log",
    application_id: 0x4655_4d45,
    migrations: &[
        "
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
    ",
        sessions::MIGRATION,
    ],
    // Lets pruning return space to the file system.
    creation_settings: "PRAGMA auto_vacuum = INCREMENTAL",
    settings: "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 1048576",
};

/// Reads the identity of a log.
pub(crate) fn log_id(connection: &Connection) -> rusqlite::Result<LogId> {
    connection.query_row("SELECT value FROM meta WHERE name = 'log'", [], |row| row.get(0))
}

/// Returns the last row, or the last removed one if no row is left.
pub(crate) fn head(connection: &Connection, log: &LogId) -> rusqlite::Result<Mark> {
    let mark = |row: &rusqlite::Row<'_>| Ok(Mark { seq: row::from_sql(row.get(0)?), hash: Hash(row.get(1)?) });
    let mut last = connection.prepare_cached("SELECT seq, hash FROM records ORDER BY seq DESC LIMIT 1")?;
    if let Some(found) = last.query_row([], mark).optional()? {
        return Ok(found);
    }
    let mut cut =
        connection.prepare_cached("SELECT seq, hash FROM anchors WHERE reason = 'cut' ORDER BY seq DESC LIMIT 1")?;
    let found = cut.query_row([], mark).optional()?;
    Ok(found.unwrap_or_else(|| Mark { seq: 0, hash: chain::genesis_hash(log) }))
}

/// Writes rows in one transaction, and returns the outcome of each item.
///
/// # Errors
/// If the transaction failed; then nothing was written.
pub(crate) fn append(connection: &mut Connection, sealer: &Sealer, rows: &[&Rows]) -> rusqlite::Result<Vec<Outcome>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut head = head(&transaction, &sealer.log)?;
    let mut outcomes = Vec::new();
    for rows in rows {
        outcomes.push(match rows {
            Rows::Record(record) => append_record(&transaction, sealer, &mut head, record)?,
            Rows::Entry(entry, records) => {
                let mut outcome = sessions::insert(&transaction, entry)?;
                if outcome.is_ok() {
                    for record in records {
                        outcome = outcome.and(append_record(&transaction, sealer, &mut head, record)?);
                    }
                }
                outcome
            }
        });
    }
    transaction.commit()?;
    Ok(outcomes)
}

/// Writes one record, and an anchor where one is due.
fn append_record(
    transaction: &Transaction<'_>,
    sealer: &Sealer,
    head: &mut Mark,
    record: &Record,
) -> rusqlite::Result<Outcome> {
    let before = head.seq;
    let outcome = insert(transaction, head, record)?;
    if head.seq > before
        && let Some(reason) = anchor::reason_at(head.seq, record.kind)
    {
        insert_anchor(transaction, sealer, *head, reason)?;
    }
    Ok(outcome)
}

/// Seals the last row when the log is closed.
pub(crate) fn anchor_head(connection: &mut Connection, sealer: &Sealer) -> rusqlite::Result<()> {
    // Checked first without a lock: after the end of a session there is nothing to do.
    if is_head_sealed(connection, head(connection, &sealer.log)?)? {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let head = head(&transaction, &sealer.log)?;
    if !is_head_sealed(&transaction, head)? {
        insert_anchor(&transaction, sealer, head, reason::CLOSE)?;
    }
    transaction.commit()
}

/// Returns whether the last row has an anchor, or there are no rows.
fn is_head_sealed(connection: &Connection, head: Mark) -> rusqlite::Result<bool> {
    let mut sealed = connection.prepare_cached("SELECT 1 FROM anchors WHERE seq = ?1")?;
    Ok(head.seq == 0 || sealed.exists([row::to_sql(head.seq)])?)
}

/// Inserts an anchor at a row.
pub(crate) fn insert_anchor(
    transaction: &Transaction<'_>,
    sealer: &Sealer,
    mark: Mark,
    reason: &str,
) -> rusqlite::Result<()> {
    let seal = sealer.seal(mark, reason);
    transaction
        .prepare_cached("INSERT OR REPLACE INTO anchors (seq, reason, hash, seal) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![row::to_sql(mark.seq), reason, mark.hash.0, seal.0])?;
    Ok(())
}

fn insert(transaction: &Transaction<'_>, head: &mut Mark, record: &Record) -> rusqlite::Result<Outcome> {
    let body = match serde_json::to_string(&record.body) {
        Ok(body) => body,
        Err(error) => return Ok(Err(format!("cannot write the body of record {}: {error}", record.id))),
    };
    let cells = row::to_cells(record, &body);
    let content = chain::content_hash(&cells);
    let seq = head.seq.saturating_add(1);
    let hash = chain::row_hash(head.hash, seq, content);
    let mut statement = transaction.prepare_cached(&format!(
        "INSERT INTO records (seq, {CELLS}, content, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
    ))?;
    let values = [ValueRef::Integer(row::to_sql(seq))]
        .into_iter()
        .chain(cells.map(columns::to_value))
        .chain([ValueRef::Blob(&content.0), ValueRef::Blob(&hash.0)]);
    match statement.execute(params_from_iter(values.map(ToSqlOutput::Borrowed))) {
        Ok(_) => {
            *head = Mark { seq, hash };
            Ok(Ok(()))
        }
        // These two errors concern one record only; the transaction continues.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::TooBig) => {
            Ok(Err(StorageError::TooLarge.to_string()))
        }
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            check_repeated(transaction, record, content)
        }
        Err(error) => Err(error),
    }
}

/// Accepts a record that was sent again after a failure, and rejects another record with the same id.
fn check_repeated(transaction: &Transaction<'_>, record: &Record, content: Hash) -> rusqlite::Result<Outcome> {
    let mut statement = transaction.prepare_cached("SELECT content FROM records WHERE id = ?1")?;
    let kept: Option<Vec<u8>> = statement.query_row([&record.id], |row| row.get(0)).optional()?;
    Ok(match kept {
        Some(kept) if kept == content.0 => Ok(()),
        Some(_) => Err(format!("the id {} belongs to another record; ids of records must be unique", record.id)),
        None => Err(format!("record {} does not fit the table", record.id)),
    })
}
