//! A log in PostgreSQL, as readers use it.

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::saved_session::SessionEntry;
use fumehood_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{LONG, mark_columns, to_log_id, transfer, verify};
use crate::error::StorageError;
use crate::event_log::chain::{Key, LogId, Mark};
use crate::event_log::checkpoint;
use crate::event_log::filter::{Filter, FilterValue, Order};
use crate::event_log::joined_head::Heads;
use crate::event_log::port::{Chain, Kinship, MAX_KIN_RECORDS, RecordSource};
use crate::event_log::reader::ReadError;
use crate::event_log::row::{self, CELLS, RawRow, StoredRecord, WriterRow};
use crate::event_log::sessions::SavedSessionInfo;
use crate::event_log::transfer::CopiedRow;
use crate::event_log::verify::{Report, StoredAnchor};
use crate::postgres::{Connection, Worker};

/// Maximum time of a query.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connections for reading.
#[derive(Debug)]
pub(super) struct PostgresSource {
    worker: Arc<Worker>,
}

impl PostgresSource {
    pub(super) fn new(worker: Arc<Worker>) -> Self {
        Self { worker }
    }

    /// Runs a query that selects [`columns`].
    fn select(&self, sql: String, values: Vec<Value>) -> Result<Vec<StoredRecord>, ReadError> {
        let rows = self.worker.run(PATIENCE, async move |connection: &mut Connection| {
            let with: Vec<&(dyn ToSql + Sync)> = values.iter().map(Value::as_parameter).collect();
            let rows = connection.query(&sql, &with).await?;
            rows.iter().map(read).collect::<Result<Vec<_>, StorageError>>()
        })?;
        rows.into_iter().map(|row| Ok(row.into_record()?)).collect()
    }

    /// Runs a job, whose error is one of the database.
    fn run<T: Send + 'static>(
        &self,
        timeout: Duration,
        job: impl AsyncFnOnce(&mut Connection) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, ReadError> {
        Ok(self.worker.run(timeout, job)?)
    }
}

/// The last position, and the head of each chain. One statement, and so one snapshot.
const HEADS: &str = "SELECT s.position, w.log, w.seq, w.hash, NULL::bigint, NULL::bytea
    FROM log_state s LEFT JOIN writers w ON w.seq > 0";

/// Like [`HEADS`], at an earlier position, with the last removed row of each chain.
///
/// The last row of a chain up to the position is found by bisection, because positions rise with the numbers of rows, as the
/// verification of the chain checks: rows up to `low` are at the position or before it, and rows after `high` behind it. A walk from
/// the newest row back would read all that was written since.
const HEADS_AT: &str = "WITH RECURSIVE chains AS (
        SELECT w.number, w.log, w.seq AS last, cut.seq AS cut_seq, cut.hash AS cut_hash FROM writers w
        LEFT JOIN LATERAL (SELECT seq, hash FROM anchors WHERE writer = w.number AND reason = 'cut'
            ORDER BY seq DESC LIMIT 1) cut ON true
    ), search (number, low, high) AS (
        SELECT number, coalesce(cut_seq, 0), last FROM chains
        UNION ALL
        SELECT s.number, CASE WHEN found THEN middle ELSE low END, CASE WHEN found THEN high ELSE middle - 1 END
        FROM search s, LATERAL (SELECT s.high - (s.high - s.low) / 2 AS middle OFFSET 0) m,
            LATERAL (SELECT EXISTS (SELECT FROM records
                WHERE writer = s.number AND seq = middle AND position <= $1) AS found OFFSET 0) f
        WHERE low < high
    )
    SELECT s.position, c.log, r.seq, r.hash, c.cut_seq, c.cut_hash
    FROM log_state s LEFT JOIN chains c ON true
    LEFT JOIN search e ON e.number = c.number AND e.low >= e.high
    LEFT JOIN LATERAL (SELECT seq, hash FROM records
        WHERE writer = c.number AND seq = e.low AND position <= $1 LIMIT 1) r ON true";

/// A parameter that a job owns.
enum Value {
    Text(String),
    Texts(Vec<String>),
    Integer(i64),
}

impl Value {
    fn as_parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Text(text) => text,
            Self::Texts(texts) => texts,
            Self::Integer(number) => number,
        }
    }
}

/// Returns the columns of a query for [`read`].
fn columns() -> String {
    format!("position, hash, seq, (SELECT log FROM writers WHERE number = writer), {CELLS}")
}

fn read(row: &Row) -> Result<RawRow, StorageError> {
    let log: Option<Vec<u8>> = row.try_get(3)?;
    let log = to_log_id(&log.unwrap_or_default()).unwrap_or_default();
    Ok(RawRow {
        seq: row::from_sql(row.try_get(0)?),
        hash: row.try_get(1)?,
        id: row.try_get(4)?,
        parent: row.try_get(5)?,
        session: row.try_get(6)?,
        at: row.try_get(7)?,
        kind: row.try_get(8)?,
        actor: row.try_get(9)?,
        tool: row.try_get(10)?,
        digest: row.try_get(11)?,
        call: row.try_get(12)?,
        status: row.try_get(13)?,
        body: row.try_get(14)?,
        writer: Some(WriterRow { log: checkpoint::LogId(log), row: row::from_sql(row.try_get(2)?) }),
    })
}

fn read_number(row: &Row, column: usize) -> Result<u64, tokio_postgres::Error> {
    Ok(row::from_sql(row.try_get(column)?))
}

impl RecordSource for PostgresSource {
    fn query(&self, filter: &Filter) -> Result<Vec<StoredRecord>, ReadError> {
        let (sql, values) = to_sql(filter);
        self.select(sql, values)
    }

    fn calls_beside(&self, from: &str, order: Order, max: usize) -> Result<Vec<String>, ReadError> {
        if from.contains('\0') {
            return Ok(Vec::new());
        }
        let (beyond, direction) = match order {
            Order::Ascending => (">", ""),
            Order::Descending => ("<", " DESC"),
        };
        // By the index `records_by_call_order`, which has the beginnings of ids. Ids that begin alike are compared as a whole.
        let sql = format!(
            "SELECT DISTINCT left(call, 64) COLLATE \"C\" AS beginning, call COLLATE \"C\" AS call FROM records
             WHERE call IS NOT NULL AND left(call, 64) COLLATE \"C\" {beyond}= left($1, 64) AND call COLLATE \"C\" {beyond} $1
             ORDER BY beginning{direction}, call{direction} LIMIT $2"
        );
        let from = from.to_owned();
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        self.run(PATIENCE, async move |connection| {
            let rows = connection.query(&sql, &[&from, &max]).await?;
            rows.iter().map(|row| Ok(row.try_get(1)?)).collect()
        })
    }

    fn kin(&self, ids: &[String], direction: Kinship) -> Result<Vec<StoredRecord>, ReadError> {
        // UNION drops records that were found before, so that even a forged cycle terminates.
        let step = match direction {
            Kinship::Ancestors => {
                "SELECT r.parent FROM chain JOIN records r ON r.id = chain.id WHERE r.parent IS NOT NULL"
            }
            Kinship::Descendants => "SELECT r.id FROM chain JOIN records r ON r.parent = chain.id",
        };
        let sql = format!(
            "WITH RECURSIVE chain (id) AS (SELECT unnest($1::text[]) UNION {step})
             SELECT {} FROM records WHERE id = ANY(ARRAY(SELECT id FROM chain LIMIT {MAX_KIN_RECORDS}))
             ORDER BY position",
            columns()
        );
        self.select(sql, vec![Value::Texts(ids.to_vec())])
    }

    fn session_entries(&self, session: &str) -> Result<Vec<SessionEntry>, ReadError> {
        if session.contains('\0') {
            return Ok(Vec::new());
        }
        let session = session.to_owned();
        self.run(PATIENCE, async move |connection| {
            let sql = "SELECT session, number, at, content FROM session_entries WHERE session = $1 ORDER BY number";
            let rows = connection.query(sql, &[&session]).await?;
            let entry = |row: &Row| {
                let number = row::from_sql(row.try_get(1)?);
                let at = Timestamp(row::from_sql(row.try_get(2)?));
                Ok(SessionEntry { session: row.try_get(0)?, number, at, content: row.try_get(3)? })
            };
            rows.iter().map(entry).collect()
        })
    }

    fn saved_sessions(&self) -> Result<Vec<SavedSessionInfo>, ReadError> {
        self.run(PATIENCE, async |connection| {
            let sql = "SELECT session, count(*), sum(octet_length(content))::bigint, min(at), max(at)
                       FROM session_entries GROUP BY session ORDER BY max(at) DESC, session";
            let rows = connection.query(sql, &[]).await?;
            let info = |row: &Row| {
                Ok(SavedSessionInfo {
                    session: row.try_get(0)?,
                    entries: read_number(row, 1)?,
                    bytes: read_number(row, 2)?,
                    began_at: Timestamp(read_number(row, 3)?),
                    changed_at: Timestamp(read_number(row, 4)?),
                })
            };
            rows.iter().map(info).collect()
        })
    }

    fn has_writers(&self) -> bool {
        true
    }

    fn chains(&self) -> Result<Vec<Chain>, ReadError> {
        self.run(PATIENCE, async |connection| {
            let rows =
                connection.query("SELECT log, key_id, NOT is_imported FROM writers ORDER BY number", &[]).await?;
            let chain = |row: &Row| {
                let log: Vec<u8> = row.try_get(0)?;
                let key: Option<Vec<u8>> = row.try_get(1)?;
                // A key that nobody can have, so that no seal counts as checked.
                let key = key.and_then(|key| key.try_into().ok()).unwrap_or([0; 16]);
                Ok(Chain { log: to_log_id(&log)?, key: Some(key), is_own: row.try_get(2)? })
            };
            rows.iter().map(chain).collect()
        })
    }

    fn read_chain(&self, log: &LogId, after: u64) -> Result<Vec<CopiedRow>, ReadError> {
        let log = *log;
        self.run(LONG, async move |connection| transfer::read_chain(connection, &log, after).await)
    }

    fn read_anchors(&self, log: &LogId) -> Result<Vec<StoredAnchor>, ReadError> {
        let log = *log;
        self.run(LONG, async move |connection| verify::anchors_of(connection, &log).await)
    }

    fn head(&self, log: &LogId) -> Result<Mark, ReadError> {
        let log = *log;
        let found = self.run(PATIENCE, async move |connection| {
            let found =
                connection.query_opt("SELECT seq, hash FROM writers WHERE log = $1", &[&log.as_slice()]).await?;
            Ok(found.map(|row| mark_columns(&row, 0, 1)).transpose()?)
        })?;
        found.ok_or(ReadError::Empty)
    }

    fn heads_at(&self, position: Option<u64>) -> Result<Option<Heads>, ReadError> {
        let heads = self.run(LONG, async move |connection| {
            let rows = match position.map(row::to_sql) {
                None => connection.query(HEADS, &[]).await?,
                Some(position) => connection.query(HEADS_AT, &[&position]).await?,
            };
            let mut heads = Heads::default();
            for row in rows {
                heads.last_position = row::from_sql(row.try_get(0)?);
                let log: Option<Vec<u8>> = row.try_get(1)?;
                let seq: Option<i64> = row.try_get(2)?;
                let cut: Option<i64> = row.try_get(4)?;
                match (log, seq, cut) {
                    (Some(log), Some(_), _) => heads.certain.push((to_log_id(&log)?, mark_columns(&row, 2, 3)?)),
                    (Some(log), None, Some(_)) => heads.pruned.push((to_log_id(&log)?, mark_columns(&row, 4, 5)?)),
                    _ => {}
                }
            }
            Ok(heads)
        })?;
        Ok(Some(heads))
    }

    fn verify(&self, log: &LogId, key: Option<&Key>, marks: &[Mark]) -> Result<Report, ReadError> {
        let log = *log;
        let key = key.copied();
        let marks = marks.to_vec();
        self.run(LONG, async move |connection| verify::verify(connection, &log, key.as_ref(), &marks).await)
    }
}

/// Returns the query of a filter and its parameters.
fn to_sql(filter: &Filter) -> (String, Vec<Value>) {
    let order = match filter.order {
        Order::Ascending => "position",
        Order::Descending => "position DESC",
    };
    let mut conditions = filter.conditions("model_call", "position");
    // No record has a text with a NUL character, and the server takes none.
    if conditions.iter().any(|(_, value)| matches!(value, FilterValue::Text(text) if text.contains('\0'))) {
        conditions = vec![("position <".to_owned(), FilterValue::Integer(0))];
    }
    let mut sql = format!("SELECT {} FROM records", columns());
    let mut values = Vec::new();
    for (condition, value) in conditions {
        sql.push_str(if values.is_empty() { " WHERE " } else { " AND " });
        values.push(match value {
            FilterValue::Text(text) => Value::Text(text.to_owned()),
            FilterValue::Integer(number) => Value::Integer(number),
        });
        sql.push_str(&format!("{condition} ${}", values.len()));
    }
    values.push(Value::Integer(filter.max_records()));
    sql.push_str(&format!(" ORDER BY {order} LIMIT ${}", values.len()));
    (sql, values)
}
