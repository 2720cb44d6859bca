//! The journal of a closed log, and deferred records.

use fumehood_core::record::{Durability, Record, Recorder as _};
use fumehood_storage::event_log::{EventLog, Filter, Options, Retention};
use futures_executor::block_on;
use serde_json::json;

use super::temporary_path;
use crate::suite::record;

/// Returns the size of the journal beside a log, in bytes.
fn journal_bytes(path: &std::path::Path) -> u64 {
    let journal = EventLog::files(path).into_iter().nth(1).unwrap();
    journal.metadata().map_or(0, |metadata| metadata.len())
}

fn keeping() -> Options {
    Options { keep_journal: true, ..Options::default() }
}

#[test]
fn short_session_keeps_its_journal_and_is_readable() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &keeping()).unwrap();
    for number in 1..=3 {
        drop(log.record(record(number), Durability::Deferred));
    }
    log.close().unwrap();
    assert!(journal_bytes(&path) > 0, "closing a short session moves nothing");
    let reader = EventLog::open_read_only(&path, &Options::default()).unwrap();
    let report = reader.verify(None).unwrap();
    assert_eq!((report.rows, report.finding), (3, None));
    // Opening it without that option moves the journal into the database.
    EventLog::open(&path, &Options::default()).unwrap().close().unwrap();
    assert_eq!(journal_bytes(&path), 0);
}

#[test]
fn closing_moves_a_large_journal_into_the_database() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &keeping()).unwrap();
    // Fewer rows than those after which the journal begins anew.
    for number in 1..=100 {
        let long = json!("x".repeat(20_000));
        block_on(log.record(Record { body: long, ..record(number) }, Durability::Durable)).unwrap();
    }
    log.close().unwrap();
    assert_eq!(journal_bytes(&path), 0);
    assert_eq!(EventLog::open_read_only(&path, &Options::default()).unwrap().verify(None).unwrap().rows, 100);
}

#[test]
fn pruned_records_do_not_stay_in_the_journal() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &keeping()).unwrap();
    let secret = json!("a word that nobody else writes");
    block_on(log.record(Record { body: secret, ..record(1) }, Durability::Durable)).unwrap();
    block_on(log.record(record(2), Durability::Durable)).unwrap();
    block_on(log.retain(Retention::Newest(1))).unwrap();
    log.close().unwrap();
    assert_eq!(journal_bytes(&path), 0);
}

#[test]
fn deferred_record_is_written_with_the_next_one() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &Options::default()).unwrap();
    drop(log.record(record(1), Durability::Deferred));
    block_on(log.record(record(2), Durability::Durable)).unwrap();
    let reader = EventLog::open_read_only(&path, &Options::default()).unwrap();
    let ids: Vec<_> = reader.query(&Filter::default()).unwrap().into_iter().map(|row| row.record.id).collect();
    assert_eq!(ids, ["r1", "r2"]);
    drop(log.record(record(3), Durability::Deferred));
    block_on(log.flush()).unwrap();
    assert_eq!(reader.last().unwrap().unwrap().seq, 3);
}
