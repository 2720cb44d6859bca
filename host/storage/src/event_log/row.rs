//! Conversion between records and rows.

use fumehood_core::record::{Record, RecordKind};
use fumehood_core::time::Timestamp;
use serde::Serialize;

use super::chain::{Cell, Hash, Mark};
use super::checkpoint::LogId;

/// The columns of a record, in the order in which they are hashed.
pub(crate) const CELLS: &str = "id, parent, session, at, kind, actor, tool, digest, call, status, body";

/// Number of columns in [`CELLS`].
pub(crate) const CELL_COUNT: usize = 11;

/// A record with its position in the log and its hash. Serialized as one object: the fields of the record, `seq` and
/// `hash`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoredRecord {
    /// The number of the row, counted from 1 without gaps. In a database of several writers it counts the rows of all of
    /// them.
    pub seq: u64,
    /// The record.
    #[serde(flatten)]
    pub record: Record,
    /// The hash of the row, which covers all rows before it.
    pub hash: Hash,
    /// The place in the chain of its writer, in a database of several writers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<WriterRow>,
}

/// The place of a row in the chain of one of several writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WriterRow {
    /// The log of the writer.
    pub log: LogId,
    /// The number of the row in it.
    pub row: u64,
}

impl StoredRecord {
    /// Returns its position in the chain.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { seq: self.seq, hash: self.hash }
    }
}

/// A row that does not contain a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnreadableRow {
    pub(crate) seq: u64,
    pub(crate) what: &'static str,
}

/// The columns of a row, as a database returns them.
#[derive(Debug)]
pub(crate) struct RawRow {
    pub(crate) seq: u64,
    pub(crate) hash: Vec<u8>,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) session: String,
    pub(crate) at: i64,
    pub(crate) kind: String,
    pub(crate) actor: Option<String>,
    pub(crate) tool: Option<String>,
    pub(crate) digest: Option<String>,
    pub(crate) call: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) body: String,
    pub(crate) writer: Option<WriterRow>,
}

impl RawRow {
    /// Converts the row to the record that it contains.
    ///
    /// # Errors
    /// If it does not contain one.
    pub(crate) fn into_record(self) -> Result<StoredRecord, UnreadableRow> {
        let unreadable = |what| UnreadableRow { seq: self.seq, what };
        let hash = Hash::from_bytes(&self.hash).ok_or_else(|| unreadable("its hash does not have 32 bytes"))?;
        let kind = RecordKind::parse(&self.kind).ok_or_else(|| unreadable("its kind is unknown"))?;
        let body = serde_json::from_str(&self.body).map_err(|_| unreadable("its body is not JSON"))?;
        let record = Record {
            id: self.id,
            parent: self.parent,
            session: self.session,
            at: Timestamp(from_sql(self.at)),
            kind,
            actor: self.actor,
            tool: self.tool,
            digest: self.digest,
            call: self.call,
            status: self.status,
            body,
        };
        Ok(StoredRecord { seq: self.seq, record, hash, writer: self.writer })
    }
}

/// Converts a record to its columns. A time beyond the range of signed integers is clamped.
pub(crate) fn to_cells<'a>(record: &'a Record, body: &'a str) -> [Cell<'a>; CELL_COUNT] {
    let optional = |value: &'a Option<String>| value.as_deref().map_or(Cell::Null, Cell::text);
    [
        Cell::text(&record.id),
        optional(&record.parent),
        Cell::text(&record.session),
        Cell::Integer(to_sql(record.at.0)),
        Cell::text(record.kind.as_str()),
        optional(&record.actor),
        optional(&record.tool),
        optional(&record.digest),
        optional(&record.call),
        optional(&record.status),
        Cell::text(body),
    ]
}

/// Converts a number to the signed integers of databases, clamped to their maximum.
pub(crate) fn to_sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Converts a number back from a database. Negative numbers, which are never written, become 0.
pub(crate) fn from_sql(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
