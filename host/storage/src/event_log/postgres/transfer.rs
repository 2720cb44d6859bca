//! A copy of a log in PostgreSQL, as the closed chain of another writer.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::source::PostgresSource;
use super::tables::{self, Month, TABLES};
use super::{GRACE, LONG, append, batch, mark_columns};
use crate::error::{OpenError, SchemaError, StorageError};
use crate::event_log::chain::Mark;
use crate::event_log::checkpoint;
use crate::event_log::log::Options;
use crate::event_log::port::RecordSource;
use crate::event_log::row::{self, CELLS, RawRow};
use crate::event_log::transfer::{CopiedChain, CopiedRow, CopyTarget, TransferError};
use crate::event_log::verify::StoredAnchor;
use crate::postgres::{Connection, Server, Worker};

/// Number of rows that are in memory at once.
const PAGE_ROWS: i64 = 1000;

const INSERT: &str =
    "INSERT INTO records (writer, position, seq, id, parent, session, at, kind, actor, tool, digest, call,
        status, body, model_call, content, hash)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";

const INSERT_ANCHOR: &str = "INSERT INTO anchors (writer, seq, reason, hash, seal) VALUES ($1, $2, $3, $4, $5)";

/// A database that logs are copied to.
pub(in crate::event_log) struct ServerCopy {
    worker: Arc<Worker>,
    /// The number of the chain that is copied now.
    number: i64,
}

impl ServerCopy {
    pub(in crate::event_log) fn open(server: &Server) -> Result<Self, OpenError> {
        let worker = Worker::start(server, Options::default().busy_timeout)?;
        let prepare = async |connection: &mut Connection| TABLES.migrate(connection).await;
        worker.run(GRACE, prepare).map_err(|reason: SchemaError| OpenError::Server {
            database: TABLES.name,
            place: server.place().to_owned(),
            reason,
        })?;
        Ok(Self { worker: Arc::new(worker), number: 0 })
    }
}

/// A chain that is there already.
struct ExistingChain {
    number: i64,
    is_imported: bool,
    head: Mark,
}

impl CopyTarget for ServerCopy {
    fn begin(&mut self, chain: &CopiedChain) -> Result<Mark, TransferError> {
        let log = chain.log;
        let key_id = chain.key_id;
        let before = chain.before;
        let cuts = chain.anchors.iter().filter(|anchor| anchor.seq <= before.seq).cloned().collect::<Vec<_>>();
        let begun = self.worker.run(LONG, async move |connection: &mut Connection| {
            connection.begin().await?;
            connection.query("SELECT position FROM log_state FOR UPDATE", &[]).await?;
            let find = "SELECT number, is_imported, seq, hash FROM writers WHERE log = $1";
            if let Some(found) = connection.query_opt(find, &[&log.as_slice()]).await? {
                let number = found.try_get(0)?;
                let is_imported = found.try_get(1)?;
                // The first copy may have been made without the key.
                let name_key = "UPDATE writers SET key_id = coalesce(key_id, $2) WHERE number = $1 AND is_imported";
                connection.execute(name_key, &[&number, &key_id.as_ref().map(|id| id.as_slice())]).await?;
                connection.run("COMMIT").await?;
                return Ok::<_, StorageError>(ExistingChain { number, is_imported, head: mark_columns(&found, 2, 3)? });
            }
            let insert = "INSERT INTO writers (log, key_id, is_imported, seq, hash) VALUES ($1, $2, true, $3, $4)
                          RETURNING number";
            let with: [&(dyn ToSql + Sync); 4] = [
                &log.as_slice(),
                &key_id.as_ref().map(|id| id.as_slice()),
                &row::to_sql(before.seq),
                &before.hash.0.as_slice(),
            ];
            let number = connection.query_one(insert, &with).await?.try_get(0)?;
            for anchor in &cuts {
                insert_anchor(connection, number, anchor).await?;
            }
            connection.run("COMMIT").await?;
            Ok(ExistingChain { number, is_imported: true, head: before })
        })?;
        if !begun.is_imported {
            return Err(TransferError::Own(checkpoint::LogId(log)));
        }
        self.number = begun.number;
        Ok(begun.head)
    }

    fn write(&mut self, rows: Vec<CopiedRow>, anchors: Vec<StoredAnchor>) -> Result<(), TransferError> {
        for CopiedRow { row, .. } in &rows {
            let texts = [&row.parent, &row.actor, &row.tool, &row.digest, &row.call, &row.status];
            let required = [&row.id, &row.session, &row.kind, &row.body];
            if texts.into_iter().flatten().chain(required).any(|text| text.contains('\0')) {
                return Err(TransferError::Nul(row.seq));
            }
        }
        let number = self.number;
        Ok(self.worker.run(LONG, async move |connection: &mut Connection| {
            let months: BTreeSet<Month> = rows.iter().filter_map(|row| Month::of(row.row.at)).collect();
            for month in months {
                tables::make_partition(connection, month).await?;
            }
            write_rows(connection, number, &rows, &anchors).await
        })?)
    }

    fn source(&self) -> Result<Arc<dyn RecordSource>, TransferError> {
        Ok(Arc::new(PostgresSource::new(Arc::clone(&self.worker))))
    }

    fn write_sessions(&mut self, source: &dyn RecordSource) -> Result<(), TransferError> {
        for session in source.saved_sessions()? {
            let entries = source.session_entries(&session.session)?;
            self.worker.run(LONG, async move |connection: &mut Connection| {
                connection.begin().await?;
                for entry in &entries {
                    let insert = "INSERT INTO session_entries (session, number, at, content) VALUES ($1, $2, $3, $4)
                                  ON CONFLICT DO NOTHING";
                    let number = row::to_sql(entry.number);
                    let at = row::to_sql(entry.at.0);
                    connection.execute(insert, &[&entry.session, &number, &at, &entry.content]).await?;
                }
                connection.run("COMMIT").await?;
                Ok::<_, StorageError>(())
            })?;
        }
        Ok(())
    }
}

/// Writes rows and the anchors at them in one transaction, and advances the head of the chain.
async fn write_rows(
    connection: &mut Connection,
    number: i64,
    rows: &[CopiedRow],
    anchors: &[StoredAnchor],
) -> Result<(), StorageError> {
    connection.begin().await?;
    let mut position: i64 = connection.query_one(append::LOCK, &[&number]).await?.try_get(0)?;
    for CopiedRow { row, content } in rows {
        position = position.saturating_add(1);
        let body = serde_json::from_str(&row.body).unwrap_or_default();
        let with: [&(dyn ToSql + Sync); 17] = [
            &number,
            &position,
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
            &batch::model_call(&body),
            content,
            &row.hash,
        ];
        connection.execute(INSERT, &with).await?;
    }
    for anchor in anchors {
        insert_anchor(connection, number, anchor).await?;
    }
    if let Some(CopiedRow { row, .. }) = rows.last() {
        connection.execute("UPDATE log_state SET position = $1", &[&position]).await?;
        let advance = "UPDATE writers SET seq = $2, hash = $3 WHERE number = $1";
        connection.execute(advance, &[&number, &row::to_sql(row.seq), &row.hash]).await?;
    }
    Ok(connection.run("COMMIT").await?)
}

async fn insert_anchor(connection: &mut Connection, number: i64, anchor: &StoredAnchor) -> Result<(), StorageError> {
    let seq = row::to_sql(anchor.seq);
    let hash = anchor.hash.0.as_slice();
    let seal = anchor.seal.0.as_slice();
    connection.execute(INSERT_ANCHOR, &[&number, &seq, &anchor.reason, &hash, &seal]).await?;
    Ok(())
}

/// Reads the next rows of a log, to be copied.
pub(super) async fn read_chain(
    connection: &mut Connection,
    log: &[u8],
    after: u64,
) -> Result<Vec<CopiedRow>, StorageError> {
    let sql = format!(
        "SELECT seq, hash, content, {CELLS} FROM records
         WHERE writer = (SELECT number FROM writers WHERE log = $1) AND seq > $2 ORDER BY seq LIMIT {PAGE_ROWS}"
    );
    let copied = |row: &Row| {
        let raw = RawRow {
            seq: row::from_sql(row.try_get(0)?),
            hash: row.try_get(1)?,
            id: row.try_get(3)?,
            parent: row.try_get(4)?,
            session: row.try_get(5)?,
            at: row.try_get(6)?,
            kind: row.try_get(7)?,
            actor: row.try_get(8)?,
            tool: row.try_get(9)?,
            digest: row.try_get(10)?,
            call: row.try_get(11)?,
            status: row.try_get(12)?,
            body: row.try_get(13)?,
            writer: None,
        };
        Ok(CopiedRow { row: raw, content: row.try_get(2)? })
    };
    connection.query(&sql, &[&log, &row::to_sql(after)]).await?.iter().map(copied).collect()
}
