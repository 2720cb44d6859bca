//! A log in SQLite, as readers use it.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use fumehood_core::saved_session::SessionEntry;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::store::{self, DATABASE};
#[cfg(feature = "postgres")]
use super::transfer;
use super::{columns, lock, sessions, verify};
use crate::error::OpenError;
use crate::event_log::chain::{Key, LogId, Mark};
use crate::event_log::filter::{Filter, FilterValue, Order};
use crate::event_log::log::Options;
use crate::event_log::port::{Chain, Kinship, MAX_KIN_RECORDS, RecordSource};
use crate::event_log::reader::ReadError;
use crate::event_log::row::{CELLS, StoredRecord};
use crate::event_log::sessions::SavedSessionInfo;
#[cfg(feature = "postgres")]
use crate::event_log::transfer::CopiedRow;
use crate::event_log::verify::Report;
#[cfg(feature = "postgres")]
use crate::event_log::verify::StoredAnchor;

/// A connection for reading, which may be that of the writer.
pub(in crate::event_log) struct SqliteSource {
    connection: Arc<Mutex<Connection>>,
}

impl SqliteSource {
    /// Opens a connection of its own, for reading only.
    pub(in crate::event_log) fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        let connection = DATABASE.open_read_only(path, options.busy_timeout)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Creates a source that shares the connection of the writer.
    pub(in crate::event_log) fn from_connection(connection: Arc<Mutex<Connection>>) -> Self {
        Self { connection }
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        lock(&self.connection)
    }

    /// Runs a query that selects `seq, hash` and [`CELLS`].
    fn select(&self, sql: &str, values: Vec<Value>) -> Result<Vec<StoredRecord>, ReadError> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(columns::read(row)??);
        }
        Ok(found)
    }
}

impl fmt::Debug for SqliteSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteSource").finish_non_exhaustive()
    }
}

impl RecordSource for SqliteSource {
    fn query(&self, filter: &Filter) -> Result<Vec<StoredRecord>, ReadError> {
        let (sql, values) = to_sql(filter);
        self.select(&sql, values)
    }

    fn calls_beside(&self, from: &str, order: Order, max: usize) -> Result<Vec<String>, ReadError> {
        let sql = match order {
            Order::Ascending => "SELECT DISTINCT call FROM records WHERE call > ?1 ORDER BY call LIMIT ?2",
            Order::Descending => "SELECT DISTINCT call FROM records WHERE call < ?1 ORDER BY call DESC LIMIT ?2",
        };
        let connection = self.connection();
        let mut statement = connection.prepare_cached(sql)?;
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let found = statement.query_map(rusqlite::params![from, max], |row| row.get(0))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }

    fn kin(&self, ids: &[String], direction: Kinship) -> Result<Vec<StoredRecord>, ReadError> {
        // UNION drops records that were found before, so that even a forged cycle terminates.
        let step = match direction {
            Kinship::Ancestors => {
                "SELECT r.parent FROM chain JOIN records r ON r.id = chain.id WHERE r.parent IS NOT NULL"
            }
            Kinship::Descendants => "SELECT r.id FROM chain JOIN records r ON r.parent = chain.id",
        };
        let ids = serde_json::to_string(ids).unwrap_or_default();
        let sql = format!(
            "WITH RECURSIVE chain (id) AS (SELECT value FROM json_each(?1) UNION {step} LIMIT {MAX_KIN_RECORDS})
             SELECT seq, hash, {CELLS} FROM records WHERE id IN (SELECT id FROM chain) ORDER BY seq"
        );
        self.select(&sql, vec![Value::Text(ids)])
    }

    fn session_entries(&self, session: &str) -> Result<Vec<SessionEntry>, ReadError> {
        Ok(sessions::entries(&self.connection(), session)?)
    }

    fn saved_sessions(&self) -> Result<Vec<SavedSessionInfo>, ReadError> {
        Ok(sessions::list(&self.connection())?)
    }

    fn has_writers(&self) -> bool {
        false
    }

    fn chains(&self) -> Result<Vec<Chain>, ReadError> {
        Ok(vec![Chain { log: store::log_id(&self.connection())?, key: None, is_own: true }])
    }

    #[cfg(feature = "postgres")]
    fn read_chain(&self, _log: &LogId, after: u64) -> Result<Vec<CopiedRow>, ReadError> {
        Ok(transfer::read_chain(&self.connection(), after)?)
    }

    #[cfg(feature = "postgres")]
    fn read_anchors(&self, _log: &LogId) -> Result<Vec<StoredAnchor>, ReadError> {
        Ok(verify::read_anchors(&self.connection())?)
    }

    fn head(&self, log: &LogId) -> Result<Mark, ReadError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        Ok(store::head(&transaction, log)?)
    }

    fn verify(&self, _log: &LogId, key: Option<&Key>, marks: &[Mark]) -> Result<Report, ReadError> {
        let mut connection = self.connection();
        // One transaction, so that records written meanwhile change nothing.
        let transaction = connection.transaction()?;
        Ok(verify::verify(&transaction, key, marks)?)
    }
}

/// Returns the query of a filter and its parameters.
fn to_sql(filter: &Filter) -> (String, Vec<Value>) {
    let order = match filter.order {
        Order::Ascending => " ORDER BY seq LIMIT ?",
        Order::Descending => " ORDER BY seq DESC LIMIT ?",
    };
    let mut sql = format!("SELECT seq, hash, {CELLS} FROM records");
    let mut values = Vec::new();
    for (condition, value) in filter.conditions("json_extract(body, '$.model_call')", "seq") {
        sql.push_str(if values.is_empty() { " WHERE " } else { " AND " });
        sql.push_str(&format!("{condition} ?"));
        values.push(match value {
            FilterValue::Text(text) => Value::Text(text.to_owned()),
            FilterValue::Integer(number) => Value::Integer(number),
        });
    }
    sql.push_str(order);
    values.push(Value::Integer(filter.max_records()));
    (sql, values)
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error.into())
    }
}
