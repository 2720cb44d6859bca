//! Tables of this release, of none, and of a newer one.

use fumehood_storage::event_log::{EventLog, Filter, OpenError, Reader, SchemaError};

use crate::harness::{TestDatabase, address, writer};
use crate::suite::{Database as _, record, write};

#[test]
fn tables_are_made_once_by_gateways_that_start_together() {
    let Some(database) = TestDatabase::new() else { return };
    let begin = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for number in 1..=4 {
            let begin = &begin;
            let database = &database;
            scope.spawn(move || {
                begin.wait();
                let log = EventLog::open_postgres(&database.address(), &writer(number)).unwrap();
                write(&log, record(u64::from(number))).unwrap();
            });
        }
    });
    assert_eq!(database.sql("SELECT count(*) FROM writers"), "4");
    assert_eq!(database.sql("SELECT kind, version FROM migrations"), "event log|1\nevent log|2");
    let reports = database.reader().verify_all(&[]).unwrap();
    assert!(reports.iter().all(|report| (report.rows, &report.finding) == (1, &None)), "{reports:?}");
}

#[test]
fn reader_makes_no_tables() {
    let Some(database) = TestDatabase::new() else { return };
    let error = Reader::open_postgres(&database.address(), &writer(1)).unwrap_err();
    assert!(matches!(error, OpenError::Server { reason: SchemaError::NoTables, .. }), "{error}");
    assert_eq!(database.sql("SELECT to_regnamespace('fumehood') IS NULL"), "t");
}

#[test]
fn tables_of_a_newer_release_are_refused_and_left_alone() {
    let Some(database) = TestDatabase::new() else { return };
    let log = database.open();
    write(&log, record(1)).unwrap();
    log.close().unwrap();
    database.sql("INSERT INTO migrations (kind, version) VALUES ('event log', 99)");
    let expected = "it has version 99, but this release supports versions up to 2; use a newer release";
    let error = EventLog::open_postgres(&database.address(), &writer(1)).unwrap_err().to_string();
    assert!(error.ends_with(expected), "{error}");
    let error = Reader::open_postgres(&database.address(), &writer(1)).unwrap_err().to_string();
    assert!(error.ends_with(expected), "{error}");
    assert_eq!(database.sql("SELECT count(*) FROM records"), "1");
}

#[test]
fn user_who_may_only_read_reads() {
    let Some(database) = TestDatabase::new() else { return };
    let log = database.open();
    write(&log, record(1)).unwrap();
    let name = &database.name;
    database.sql(&format!(
        "CREATE ROLE auditor_{name} LOGIN; GRANT USAGE ON SCHEMA fumehood TO auditor_{name};
         GRANT SELECT ON ALL TABLES IN SCHEMA fumehood TO auditor_{name}"
    ));
    let url = database.server.url(name).replace("fumehood@", &format!("auditor_{name}@"));
    let reader = Reader::open_postgres(&address(&url), &writer(1)).unwrap();
    assert_eq!(reader.query(&Filter::default()).unwrap().len(), 1);
    assert_eq!(reader.verify(None).unwrap().finding, None);
    let error = EventLog::open_postgres(&address(&url), &writer(2)).unwrap_err().to_string();
    assert!(error.contains("permission denied"), "{error}");
}

#[test]
fn database_that_is_not_there_is_named() {
    let Some(database) = TestDatabase::new() else { return };
    let error = EventLog::open_postgres(&address(&database.server.url("nowhere")), &writer(1)).unwrap_err().to_string();
    assert!(error.contains("cannot use the event log at postgres://") && error.contains("does not exist"), "{error}");
}
