//! Storage errors: their messages, and that no record is lost.

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::temporary_path;
use crate::suite::{record, write, write_all};
use fumehood_core::record::{Durability, Record, Recorder};
use fumehood_storage::event_log::{EventLog, Filter, OpenError, Options, Reader, SchemaError, StorageError};
use futures_executor::block_on;
use rusqlite::Connection;
use serde_json::json;

fn quick() -> Options {
    let short = Duration::from_millis(100);
    Options { busy_timeout: short, close_timeout: Duration::from_millis(300), ..Options::default() }
}

fn refusal(path: &Path) -> OpenError {
    EventLog::open(path, &quick()).expect_err("a refusal")
}

#[test]
fn rejects_and_preserves_a_file_that_is_not_a_database() {
    let (_folder, path) = temporary_path();
    let text = "these are my notes, not a database, and I want to keep them. ".repeat(20);
    fs::write(&path, &text).unwrap();
    assert!(matches!(
        refusal(&path),
        OpenError::Schema { reason: SchemaError::Storage(StorageError::NotADatabase), .. }
    ));
    assert!(Reader::open(&path, &quick()).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert!(!path.with_extension("db.key").exists());
}

#[test]
fn rejects_and_preserves_a_foreign_database() {
    let (_folder, path) = temporary_path();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, OpenError::Schema { reason: SchemaError::Foreign, .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn rejects_and_preserves_a_damaged_log() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &quick()).unwrap();
    write_all(&log, 1..=2000);
    log.close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    let error = refusal(&path).to_string();
    assert!(error.contains("the file is damaged; nothing was changed"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn rejects_a_log_of_a_newer_release() {
    let (_folder, path) = temporary_path();
    EventLog::open(&path, &quick()).unwrap().close().unwrap();
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let error = refusal(&path).to_string();
    let expected = "it has version 99, but this release supports versions up to 2; use a newer release";
    assert!(error.ends_with(expected), "{error}");
    assert!(Reader::open(&path, &quick()).err().unwrap().to_string().ends_with(expected));
}

#[test]
fn error_names_a_path_that_cannot_be_created() {
    let error = refusal(Path::new("/proc/nowhere/events.db"));
    assert!(error.to_string().contains("/proc/nowhere/events.db"), "{error}");
    assert!(error.source().is_some());
    let (folder, _) = temporary_path();
    assert!(matches!(refusal(folder.path()), OpenError::File { .. }));
    let missing = Reader::open(folder.path().join("none.db"), &quick()).err().unwrap();
    assert!(matches!(missing, OpenError::File { .. }));
    assert!(!folder.path().join("none.db").exists());
}

#[cfg(unix)]
#[test]
fn log_and_key_are_readable_by_owner_only() {
    let (folder, _) = temporary_path();
    let path = folder.path().join("a/b/events.db");
    let log = EventLog::open(&path, &quick()).unwrap();
    write(&log, record(1)).unwrap();
    assert_eq!(mode_of(path.parent().unwrap()), 0o700);
    assert_eq!(mode_of(path.parent().unwrap().parent().unwrap()), 0o700);
    for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap().path();
        assert_eq!(mode_of(&entry), 0o600, "{}", entry.display());
    }
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// As root only reading is tested, because root may write everywhere.
#[cfg(unix)]
#[test]
fn reads_a_log_in_a_read_only_folder() {
    let (folder, path) = temporary_path();
    let log = EventLog::open(&path, &quick()).unwrap();
    write_all(&log, 1..=3);
    log.close().unwrap();
    set_mode(&path, 0o400);
    set_mode(folder.path(), 0o500);
    assert_eq!(Reader::open(&path, &quick()).unwrap().verify(None).unwrap().rows, 3);
    let is_root = fs::write(folder.path().join("probe"), "").is_ok();
    if !is_root {
        let error = refusal(&path).to_string();
        assert!(error.contains("the file or its folder is read-only"), "{error}");
    }
    set_mode(folder.path(), 0o700);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap()
}

#[test]
fn log_without_its_key_is_read_only() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &quick()).unwrap();
    write_all(&log, 1..=3);
    log.close().unwrap();
    let key = path.with_extension("db.key");
    fs::remove_file(&key).unwrap();
    assert!(refusal(&path).to_string().contains("is missing"));
    let report = Reader::open(&path, &quick()).unwrap().verify(None).unwrap();
    assert_eq!((report.rows, report.seals_checked, report.finding), (3, false, None));
    fs::write(&key, "short").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(refusal(&path).to_string().contains("it has 5 bytes instead of 32"));
}

#[test]
fn lock_is_reported_and_loses_no_record() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &quick()).unwrap();
    write(&log, record(1)).unwrap();
    let big = |number| Record { body: json!("x".repeat(100_000)), ..record(number) };
    let blocker = Connection::open(&path).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = write(&log, big(2)).unwrap_err().to_string();
    assert!(error.contains("another process has locked the database"), "{error}");
    assert!(error.contains("is in memory"), "{error}");
    let queued = block_on(log.record(big(3), Durability::Queued)).unwrap_err();
    assert!(queued.to_string().contains("another process has locked the database"), "{queued}");
    assert!(block_on(log.flush()).is_err());
    blocker.execute_batch("COMMIT").unwrap();
    while block_on(log.flush()).is_err() {}
    assert_eq!(block_on(log.record(record(4), Durability::Queued)), Ok(()));
    // Sent again after the error, as a careful caller does.
    assert_eq!(write(&log, big(2)), Ok(()));
    let ids: Vec<_> = log.reader().query(&Filter::default()).unwrap().into_iter().map(|row| row.record.id).collect();
    assert_eq!(ids, ["r1", "r2", "r3", "r4"]);
    assert_eq!(log.reader().verify(None).unwrap().finding, None);
}

#[test]
fn rejects_a_reused_id_and_continues() {
    let log = EventLog::in_memory(&quick()).unwrap();
    write(&log, record(1)).unwrap();
    let other = Record { id: "r1".to_owned(), ..record(2) };
    assert!(write(&log, other).unwrap_err().to_string().contains("belongs to another record"));
    write(&log, record(3)).unwrap();
    assert_eq!(log.reader().verify(None).unwrap().rows, 2);
}

#[test]
fn full_queue_rejects_records_and_close_respects_its_timeout() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &Options { capacity: 2, ..quick() }).unwrap();
    let blocker = Connection::open(&path).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut taken = 0;
    let refused = loop {
        match block_on(log.record(record(taken + 1), Durability::Queued)) {
            Err(error) if error.to_string().contains("records are already waiting to be written") => break error,
            _ => taken += 1,
        }
    };
    assert_eq!(taken, 8, "{refused}");
    let started = Instant::now();
    assert_eq!(log.close().unwrap_err().lost, 8);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[test]
fn two_writers_produce_one_chain() {
    let (_folder, path) = temporary_path();
    let one = EventLog::open(&path, &Options::default()).unwrap();
    let two = EventLog::open(&path, &Options::default()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=200).for_each(|number| write(&one, record(number)).unwrap()));
        scope.spawn(|| (201..=400).for_each(|number| write(&two, record(number)).unwrap()));
    });
    let report = one.reader().verify(None).unwrap();
    assert_eq!((report.rows, report.finding), (400, None));
}

/// A process that inspects the database while another creates the tables must see either none of them or all.
#[test]
fn concurrent_creation_yields_one_log() {
    for _ in 0..20 {
        let (_folder, path) = temporary_path();
        let begin = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for number in 1..=4 {
                let begin = &begin;
                let path = &path;
                scope.spawn(move || {
                    begin.wait();
                    let log = EventLog::open(path, &Options::default()).unwrap();
                    write(&log, record(number)).unwrap();
                });
            }
        });
        let report = Reader::open(&path, &Options::default()).unwrap().verify(None).unwrap();
        assert_eq!((report.rows, report.finding), (4, None));
    }
}

#[test]
fn drop_writes_waiting_records() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &Options::default()).unwrap();
    (1..=50).for_each(|number| drop(log.record(record(number), Durability::Queued)));
    drop(log);
    let report = Reader::open(&path, &Options::default()).unwrap().verify(None).unwrap();
    assert_eq!((report.rows, report.sealed_up_to, report.finding), (50, 50, None));
}
