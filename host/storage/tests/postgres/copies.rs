//! Logs that are copied from a file to a server, and back.

use fumehood_core::record::Record;
use fumehood_core::saved_session::{SessionEntry, SessionStore as _};
use fumehood_core::time::Timestamp;
use fumehood_storage::event_log::{EventLog, Filter, Options, Reader, Retention, TransferError};
use futures_executor::block_on;

use crate::harness::{TestDatabase, writer};
use crate::suite::{record, write, write_all};

#[test]
fn copies_are_the_same_log() {
    let Some(database) = TestDatabase::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.db");
    let back = folder.path().join("back.db");
    let log = EventLog::open(&path, &writer(7)).unwrap();
    write_all(&log, 1..=2500);
    block_on(log.retain(Retention::Newest(2200))).unwrap();
    let entry = SessionEntry { session: "s".to_owned(), number: 0, at: Timestamp(1), content: "head".to_owned() };
    block_on(log.append(entry.clone(), vec![record(2501)])).unwrap();
    let checkpoint = log.reader().checkpoint(Timestamp(1)).unwrap();
    let copied = log.reader().copy_to_postgres(&database.address()).unwrap();
    assert_eq!((copied[0].copied, copied[0].last, copied[0].seals_checked), (2201, checkpoint.mark, true));
    // The rest, and nothing twice.
    write_all(&log, 2502..=2600);
    let rest = log.reader().copy_to_postgres(&database.address()).unwrap();
    assert_eq!((rest[0].copied, rest[0].last.seq), (99, 2600));
    assert_eq!(log.reader().copy_to_postgres(&database.address()).unwrap()[0].copied, 0);
    let reader = Reader::open_postgres(&database.address(), &writer(7)).unwrap();
    let report = reader.verify_since(&[checkpoint]).unwrap();
    assert_eq!((report.rows, report.pruned_up_to, report.finding), (2300, 300, None));
    assert_eq!(reader.session_entries("s").unwrap(), [entry]);
    // Whoever has the key begins a chain of its own.
    let own = EventLog::open_postgres(&database.address(), &writer(7)).unwrap();
    write(&own, Record { id: "own".to_owned(), ..record(1) }).unwrap();
    assert_eq!(own.reader().verify(None).unwrap().rows, 1);
    let report = reader.copy_to_file(Some(copied[0].log), &back).unwrap();
    assert_eq!((report.copied, report.last), (2300, rest[0].last));
    let all = Filter { limit: Some(usize::MAX), ..Filter::default() };
    let copy = Reader::open(&back, &writer(7)).unwrap();
    assert_eq!(copy.query(&all).unwrap(), log.reader().query(&all).unwrap());
    assert_eq!(copy.verify_since(&[checkpoint]).unwrap().finding, None);
    assert_eq!(copy.session_entries("s").unwrap().len(), 1);
}

#[test]
fn a_later_copy_with_the_key_names_it() {
    let Some(database) = TestDatabase::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.db");
    let log = EventLog::open(&path, &writer(7)).unwrap();
    // With a row that is sealed.
    write_all(&log, 1..=1100);
    let checkpoint = log.reader().checkpoint(Timestamp(1)).unwrap();
    let keyless = Reader::open(&path, &Options::default()).unwrap();
    assert!(!keyless.copy_to_postgres(&database.address()).unwrap()[0].seals_checked);
    let reader = Reader::open_postgres(&database.address(), &writer(7)).unwrap();
    assert!(!reader.verify_since(&[checkpoint]).unwrap().seals_checked);
    assert_eq!(log.reader().copy_to_postgres(&database.address()).unwrap()[0].copied, 0);
    assert!(reader.verify_since(&[checkpoint]).unwrap().seals_checked);
}

#[test]
fn logs_that_cannot_be_copied_leave_nothing_behind() {
    let Some(database) = TestDatabase::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.db");
    let log = EventLog::open(&path, &writer(7)).unwrap();
    write_all(&log, 1..=5);
    write(&log, Record { actor: Some("a\0b".to_owned()), ..record(6) }).unwrap();
    let error = log.reader().copy_to_postgres(&database.address()).unwrap_err();
    assert!(matches!(error, TransferError::Nul(6)), "{error}");
    log.close().unwrap();
    let edit = "UPDATE records SET body = '1' WHERE seq = 2";
    rusqlite::Connection::open(&path).unwrap().execute_batch(edit).unwrap();
    let error = Reader::open(&path, &writer(7)).unwrap().copy_to_postgres(&database.address()).unwrap_err();
    assert!(matches!(&error, TransferError::Source { finding, .. } if finding.seq == 2), "{error}");
    let own = EventLog::open_postgres(&database.address(), &writer(1)).unwrap();
    write_all(&own, 10..=12);
    let reader = own.reader();
    let error = reader.copy_to_file(None, &path).unwrap_err();
    assert!(matches!(error, TransferError::Exists(_)), "{error}");
    let error = reader.copy_to_postgres(&database.address()).unwrap_err();
    assert!(matches!(error, TransferError::Own(_) | TransferError::Source { .. }), "{error}");
    // What was rewritten as a whole verifies without the key, and not with it.
    database.sql("UPDATE records SET hash = '\\x00' WHERE seq = 2 AND writer = 2");
    let copy = folder.path().join("copy.db");
    reader.copy_to_file(None, &copy).unwrap_err();
    assert!(!copy.exists());
    EventLog::open(folder.path().join("fine.db"), &Options::default()).unwrap().close().unwrap();
}
