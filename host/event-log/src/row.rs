//! A record as a row, and a row as a record.

use fumehood_core::record::{Record, RecordKind};
use fumehood_core::time::Timestamp;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::Serialize;

use crate::hash::{Hash, Mark};

/// The columns that a record is made of, in the order in which they are hashed.
pub(crate) const CELLS: &str = "id, parent, session, at, kind, actor, tool, digest, call, status, body";

/// How many those are.
pub(crate) const CELL_COUNT: usize = 11;

/// A record, its place in the log and its hash. In JSON one object: the fields of the record, `seq` and `hash`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stored {
    /// Its number: the first record has 1, and each later one is higher by 1.
    pub seq: u64,
    /// The record.
    #[serde(flatten)]
    pub record: Record,
    /// The hash of the row, which covers all rows before it.
    pub hash: Hash,
}

impl Stored {
    /// Its place in the chain.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { seq: self.seq, hash: self.hash }
    }
}

/// A row that does not hold a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) seq: u64,
    pub(crate) what: &'static str,
}

/// The columns of a record. A moment that SQLite cannot count to becomes the last that it can.
pub(crate) fn cells<'a>(record: &'a Record, body: &'a str) -> [ValueRef<'a>; CELL_COUNT] {
    let text = |text: &'a str| ValueRef::Text(text.as_bytes());
    let optional = |value: &'a Option<String>| value.as_deref().map_or(ValueRef::Null, text);
    [
        text(&record.id),
        optional(&record.parent),
        text(&record.session),
        ValueRef::Integer(integer(record.at.0)),
        text(record.kind.as_str()),
        optional(&record.actor),
        optional(&record.tool),
        optional(&record.digest),
        optional(&record.call),
        optional(&record.status),
        text(body),
    ]
}

/// The record in a row of `seq, hash` and [`CELLS`].
pub(crate) fn stored(row: &Row<'_>) -> rusqlite::Result<Result<Stored, Unreadable>> {
    let seq = number(row.get(0)?);
    let hash: Vec<u8> = row.get(1)?;
    let kind: String = row.get(6)?;
    let body: String = row.get(12)?;
    let unreadable = |what| Ok(Err(Unreadable { seq, what }));
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
        at: Timestamp(number(row.get(5)?)),
        kind,
        actor: row.get(7)?,
        tool: row.get(8)?,
        digest: row.get(9)?,
        call: row.get(10)?,
        status: row.get(11)?,
        body,
    };
    Ok(Ok(Stored { seq, record, hash }))
}

/// SQLite counts in signed numbers.
pub(crate) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// See [`integer`]. Nothing that was written is negative.
pub(crate) fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
