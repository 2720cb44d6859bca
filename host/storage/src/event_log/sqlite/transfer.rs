//! A copy of a log as a new SQLite file, and the rows of a file that is copied.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::ToSql;
use rusqlite::{Connection, Row, TransactionBehavior, params};

use super::store::DATABASE;
use super::{SqliteSource, columns};
use crate::error::{OpenError, StorageError};
use crate::event_log::chain::Mark;
use crate::event_log::log::Options;
use crate::event_log::port::RecordSource;
use crate::event_log::row::{self, CELLS};
use crate::event_log::transfer::{CopiedChain, CopiedRow, CopyTarget, TransferError};
use crate::event_log::verify::StoredAnchor;

/// Maximum time to wait for another process. Nobody else knows of a new file.
const PATIENCE: Duration = Duration::from_secs(5);

/// Number of rows that are in memory at once.
const PAGE_ROWS: i64 = 1000;

/// A new file that a log is copied to.
pub(in crate::event_log) struct FileCopy {
    path: PathBuf,
    connection: Connection,
}

impl FileCopy {
    pub(in crate::event_log) fn create(path: &Path) -> Result<Self, OpenError> {
        Ok(Self { path: path.to_owned(), connection: DATABASE.open_writable(path, PATIENCE)? })
    }
}

fn write_rows(connection: &mut Connection, rows: &[CopiedRow], anchors: &[StoredAnchor]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for CopiedRow { row, content } in rows {
        let values: [&dyn ToSql; 14] = [
            &row::to_sql(row.seq),
            &row.id,
            &row.parent,
            &row.session,
            &row.at,
            &row.kind,
            &row.actor,
            &row.tool,
            &row.digest,
            &row.call,
            &row.status,
            &row.body,
            content,
            &row.hash,
        ];
        transaction
            .prepare_cached(&format!(
                "INSERT INTO records (seq, {CELLS}, content, hash)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
            ))?
            .execute(values.as_slice())?;
    }
    anchors.iter().try_for_each(|anchor| insert_anchor(&transaction, anchor))?;
    transaction.commit()
}

impl CopyTarget for FileCopy {
    fn begin(&mut self, chain: &CopiedChain) -> Result<Mark, TransferError> {
        let set = "UPDATE meta SET value = ?1 WHERE name = 'log'";
        self.connection.execute(set, [chain.log.as_slice()]).map_err(StorageError::from)?;
        let mut cuts = chain.anchors.iter().filter(|anchor| anchor.seq <= chain.before.seq);
        cuts.try_for_each(|anchor| insert_anchor(&self.connection, anchor)).map_err(StorageError::from)?;
        Ok(chain.before)
    }

    fn write(&mut self, rows: Vec<CopiedRow>, anchors: Vec<StoredAnchor>) -> Result<(), TransferError> {
        Ok(write_rows(&mut self.connection, &rows, &anchors).map_err(StorageError::from)?)
    }

    fn source(&self) -> Result<Arc<dyn RecordSource>, TransferError> {
        Ok(Arc::new(SqliteSource::open(&self.path, &Options::default())?))
    }

    fn write_sessions(&mut self, source: &dyn RecordSource) -> Result<(), TransferError> {
        for session in source.saved_sessions()? {
            for entry in source.session_entries(&session.session)? {
                let insert =
                    "INSERT OR IGNORE INTO session_entries (session, number, at, content) VALUES (?1, ?2, ?3, ?4)";
                let values = params![entry.session, row::to_sql(entry.number), row::to_sql(entry.at.0), entry.content];
                self.connection.execute(insert, values).map_err(StorageError::from)?;
            }
        }
        Ok(())
    }
}

fn insert_anchor(connection: &Connection, anchor: &StoredAnchor) -> rusqlite::Result<()> {
    let insert = "INSERT INTO anchors (seq, reason, hash, seal) VALUES (?1, ?2, ?3, ?4)";
    let values = params![row::to_sql(anchor.seq), anchor.reason, anchor.hash.0, anchor.seal.0];
    connection.prepare_cached(insert)?.execute(values).map(drop)
}

/// Reads the next rows of a log, to be copied.
pub(super) fn read_chain(connection: &Connection, after: u64) -> rusqlite::Result<Vec<CopiedRow>> {
    let sql = format!("SELECT seq, hash, {CELLS}, content FROM records WHERE seq > ?1 ORDER BY seq LIMIT {PAGE_ROWS}");
    let mut statement = connection.prepare_cached(&sql)?;
    let copied = |row: &Row<'_>| Ok(CopiedRow { row: columns::read_raw(row)?, content: row.get(13)? });
    statement.query_map([row::to_sql(after)], copied)?.collect()
}
