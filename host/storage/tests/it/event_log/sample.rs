//! Sample records.

use std::path::PathBuf;

use fumehood_core::record::{Durability, Record, RecordError, RecordKind, Recorder};
use fumehood_core::time::Timestamp;
use fumehood_storage::event_log::EventLog;
use futures_executor::block_on;
use serde_json::json;
use tempfile::TempDir;

/// Creates a temporary folder, and returns the path of a log in it.
pub fn temporary_path() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("events.db");
    (folder, path)
}

/// Returns the record with this number, of session `s`, about a call.
pub fn record(number: u64) -> Record {
    Record {
        id: format!("r{number}"),
        parent: number.checked_sub(2).map(|parent| format!("r{}", parent + 1)),
        session: "s".to_owned(),
        at: Timestamp(1_000 + number),
        kind: RecordKind::ToolFinished,
        actor: Some("ann".to_owned()),
        tool: Some("calculator__add".to_owned()),
        digest: None,
        call: Some(format!("call-{number}")),
        status: Some("ok".to_owned()),
        body: json!({"result": number, "note": "ü\u{0} \"quoted\""}),
    }
}

/// Writes a record, and waits until it is on disk.
pub fn write(log: &EventLog, record: Record) -> Result<(), RecordError> {
    block_on(log.record(record, Durability::Durable))
}

/// Writes the records with these numbers, and waits until they are on disk.
pub fn write_all(log: &EventLog, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        drop(log.record(record(number), Durability::Queued));
    }
    block_on(log.flush()).expect("flushed");
}
