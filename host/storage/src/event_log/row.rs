//! Conversion between records and rows.

use fumehood_core::record::{Record, RecordKind};
use fumehood_core::time::Timestamp;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::Serialize;

use super::chain::{Hash, Mark};

/// The columns of a record, in the order in which they are hashed.
pub(crate) const CELLS: &str = "id, parent, session, at, kind, actor, tool, digest, call, status, body";

/// Number of columns in [`CELLS`].
pub(crate) const CELL_COUNT: usize = 11;

/// A record with its position in the log and its hash. Serialized as one object: the fields of the record, `seq` and
/// `hash`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoredRecord {
    /// The number of the row, counted from 1 without gaps.
    pub seq: u64,
    /// The record.
    #[serde(flatten)]
    pub record: Record,
    /// The hash of the row, which covers all rows before it.
    pub hash: Hash,
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

/// Converts a record to its columns. A time beyond SQLite's range is clamped.
pub(crate) fn to_cells<'a>(record: &'a Record, body: &'a str) -> [ValueRef<'a>; CELL_COUNT] {
    let text = |text: &'a str| ValueRef::Text(text.as_bytes());
    let optional = |value: &'a Option<String>| value.as_deref().map_or(ValueRef::Null, text);
    [
        text(&record.id),
        optional(&record.parent),
        text(&record.session),
        ValueRef::Integer(to_sql(record.at.0)),
        text(record.kind.as_str()),
        optional(&record.actor),
        optional(&record.tool),
        optional(&record.digest),
        optional(&record.call),
        optional(&record.status),
        text(body),
    ]
}

/// Reads the record from a row of `seq, hash` and [`CELLS`].
pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Result<StoredRecord, UnreadableRow>> {
    let seq = from_sql(row.get(0)?);
    let hash: Vec<u8> = row.get(1)?;
    let kind: String = row.get(6)?;
    let body: String = row.get(12)?;
    let unreadable = |what| Ok(Err(UnreadableRow { seq, what }));
    let Some(hash) = Hash::from_bytes(&hash) else {
        return unreadable("its hash does not have 32 bytes");
    };
    let Some(kind) = RecordKind::parse(&kind) else {
        return unreadable("its kind is not known");
    };
    let Ok(body) = serde_json::from_str(&body) else {
        return unreadable("its body is not JSON");
    };
    let record = Record {
        id: row.get(2)?,
        parent: row.get(3)?,
        session: row.get(4)?,
        at: Timestamp(from_sql(row.get(5)?)),
        kind,
        actor: row.get(7)?,
        tool: row.get(8)?,
        digest: row.get(9)?,
        call: row.get(10)?,
        status: row.get(11)?,
        body,
    };
    Ok(Ok(StoredRecord { seq, record, hash }))
}

/// Converts a number to SQLite's signed integers, clamped to their maximum.
pub(crate) fn to_sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Converts a number back from SQLite. Negative numbers, which are never written, become 0.
pub(crate) fn from_sql(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
