//! Conversion between columns of SQLite and cells of the chain, and rows that contain records.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::event_log::chain::{Cell, Hash};
use crate::event_log::row::{self, RawRow, StoredRecord, UnreadableRow};

/// Converts a cell to a value of SQLite.
pub(crate) fn to_value(cell: Cell<'_>) -> ValueRef<'_> {
    match cell {
        Cell::Null => ValueRef::Null,
        Cell::Integer(value) => ValueRef::Integer(value),
        Cell::Real(value) => ValueRef::Real(value),
        Cell::Text(text) => ValueRef::Text(text),
        Cell::Blob(blob) => ValueRef::Blob(blob),
    }
}

/// Converts a value of SQLite to a cell.
pub(crate) fn to_cell(value: ValueRef<'_>) -> Cell<'_> {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(value) => Cell::Integer(value),
        ValueRef::Real(value) => Cell::Real(value),
        ValueRef::Text(text) => Cell::Text(text),
        ValueRef::Blob(blob) => Cell::Blob(blob),
    }
}

/// Reads the record from a row of `seq, hash` and [`CELLS`](crate::event_log::row::CELLS).
pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Result<StoredRecord, UnreadableRow>> {
    Ok(read_raw(row)?.into_record())
}

/// Like [`read`], without looking at what the columns say.
pub(crate) fn read_raw(row: &Row<'_>) -> rusqlite::Result<RawRow> {
    Ok(RawRow {
        seq: row::from_sql(row.get(0)?),
        hash: row.get(1)?,
        id: row.get(2)?,
        parent: row.get(3)?,
        session: row.get(4)?,
        at: row.get(5)?,
        kind: row.get(6)?,
        actor: row.get(7)?,
        tool: row.get(8)?,
        digest: row.get(9)?,
        call: row.get(10)?,
        status: row.get(11)?,
        body: row.get(12)?,
        writer: None,
    })
}

/// Reads a hash from a column. One of the wrong length becomes a hash that matches nothing.
pub(crate) fn hash(row: &Row<'_>, index: usize) -> rusqlite::Result<Hash> {
    Ok(row.get_ref(index)?.as_blob().ok().and_then(Hash::from_bytes).unwrap_or(Hash([0; 32])))
}
