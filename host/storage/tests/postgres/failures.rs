//! Servers that go and come back, and records that a server does not take.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fumehood_core::dependency::Dependency as _;
use fumehood_core::record::{Durability, Record, Recorder as _};
use fumehood_storage::event_log::{EventLog, Filter, OpenError, Reader};
use fumehood_tests::postgres::Postgres;
use futures_executor::block_on;

use crate::harness::{TestDatabase, address, writer};
use crate::suite::{Database as _, ids, record, write};

/// Writes until told to stop, and returns the ids of the records that were acknowledged.
fn write_until(log: &EventLog, stop: &AtomicBool, count: &AtomicU64, first: u64) -> BTreeSet<String> {
    let mut acknowledged = BTreeSet::new();
    let mut number = first;
    while !stop.load(Ordering::Relaxed) {
        let record = record(number);
        let id = record.id.clone();
        // Sent again until it is there, as a careful caller does.
        if block_on(log.record(record, Durability::Durable)).is_ok() {
            acknowledged.insert(id);
            count.fetch_add(1, Ordering::Relaxed);
            number += 1;
        }
    }
    acknowledged
}

/// Waits until twenty more records are acknowledged.
fn wait_for_more(count: &AtomicU64) {
    let before = count.load(Ordering::Relaxed);
    let began = Instant::now();
    while count.load(Ordering::Relaxed) < before + 20 {
        assert!(began.elapsed() < Duration::from_secs(60), "the log does not recover");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn no_acknowledged_record_is_lost_or_doubled_by_restarts() {
    let Some(mut server) = Postgres::start_with(&["fsync=on"]).unwrap() else { return };
    let url = server.create_database("log").unwrap();
    let log = EventLog::open_postgres(&address(&url), &writer(1)).unwrap();
    let stop = AtomicBool::new(false);
    let count = AtomicU64::new(0);
    let acknowledged: BTreeSet<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let log = &log;
                let stop = &stop;
                let count = &count;
                scope.spawn(move || write_until(log, stop, count, writer * 1_000_000 + 1))
            })
            .collect();
        for round in 0..3 {
            // In the middle of writing, each time.
            wait_for_more(&count);
            if round == 1 {
                server.shut_down().unwrap()
            } else {
                server.crash().unwrap()
            }
            std::thread::sleep(Duration::from_millis(200));
            server.run().unwrap();
        }
        wait_for_more(&count);
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let began = Instant::now();
    while block_on(log.flush()).is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "the log does not recover");
    }
    let all = Filter { limit: Some(usize::MAX), ..Filter::default() };
    let found = log.reader().query(&all).unwrap();
    let kept: BTreeSet<String> = ids(&found).into_iter().map(str::to_owned).collect();
    assert_eq!(kept.len(), found.len(), "a record is there twice");
    let lost: Vec<_> = acknowledged.difference(&kept).collect();
    assert!(lost.is_empty(), "{lost:?} of {}", acknowledged.len());
    assert!(acknowledged.len() > 20, "only {} were acknowledged", acknowledged.len());
    assert_eq!(log.reader().verify(None).unwrap().finding, None);
    println!("{} records through three restarts of the server, none lost, none twice", acknowledged.len());
}

#[test]
fn server_that_is_gone_is_reported_and_no_record_is_lost() {
    let Some(mut server) = Postgres::start().unwrap() else { return };
    let url = server.create_database("log").unwrap();
    let log = EventLog::open_postgres(&address(&url), &writer(1)).unwrap();
    write(&log, record(1)).unwrap();
    server.shut_down().unwrap();
    let began = Instant::now();
    let error = write(&log, record(2)).unwrap_err().to_string();
    assert!(error.contains("cannot reach the database server"), "{error}");
    assert!(error.contains("is in memory"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let queued = block_on(log.record(record(3), Durability::Queued)).unwrap_err();
    assert!(queued.to_string().contains("cannot reach the database server"), "{queued}");
    assert!(log.reader().query(&Filter::default()).is_err());
    let gone = EventLog::open_postgres(&address(&url), &writer(2)).unwrap_err();
    assert!(matches!(&gone, OpenError::Server { place, .. } if place.starts_with("postgres://fumehood@127.0.0.1:")));
    server.run().unwrap();
    let began = Instant::now();
    while block_on(log.flush()).is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "the log does not recover");
    }
    write(&log, record(2)).unwrap();
    assert_eq!(ids(&log.reader().query(&Filter::default()).unwrap()), ["r1", "r2", "r3"]);
    assert_eq!(log.reader().verify(None).unwrap().finding, None);
}

#[test]
fn loss_of_the_server_is_noticed_without_records() {
    let Some(mut server) = Postgres::start().unwrap() else { return };
    let url = server.create_database("log").unwrap();
    let log = EventLog::open_postgres(&address(&url), &writer(1)).unwrap();
    let wait_for = |outage: Option<&str>| {
        let began = Instant::now();
        while log.outage() != outage {
            assert!(began.elapsed() < Duration::from_secs(60), "never {outage:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    write(&log, record(1)).unwrap();
    wait_for(None);
    server.crash().unwrap();
    wait_for(Some("event_log"));
    server.run().unwrap();
    wait_for(None);
    write(&log, record(2)).unwrap();
}

#[test]
fn record_is_refused_at_once_while_the_server_is_gone() {
    let Some(mut server) = Postgres::start().unwrap() else { return };
    let url = server.create_database("log").unwrap();
    let log = EventLog::open_postgres(&address(&url), &writer(1)).unwrap();
    server.crash().unwrap();
    write(&log, record(1)).unwrap_err();
    // By now there are two seconds between two attempts.
    std::thread::sleep(Duration::from_secs(4));
    for number in 2..=6 {
        let began = Instant::now();
        let error = write(&log, record(number)).unwrap_err().to_string();
        assert!(error.contains("is in memory"), "{error}");
        assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    }
    server.run().unwrap();
    let began = Instant::now();
    while block_on(log.flush()).is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "the log does not recover");
    }
    assert_eq!(log.reader().query(&Filter::default()).unwrap().len(), 6);
}

#[test]
fn locked_log_is_reported_and_recovers() {
    let Some(database) = TestDatabase::new() else { return };
    let options = fumehood_storage::event_log::Options { busy_timeout: Duration::from_millis(200), ..writer(1) };
    let log = EventLog::open_postgres(&database.address(), &options).unwrap();
    write(&log, record(1)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| database.sql("BEGIN; SELECT * FROM log_state FOR UPDATE; SELECT pg_sleep(2); COMMIT"));
        std::thread::sleep(Duration::from_secs(1));
        let error = write(&log, record(2)).unwrap_err().to_string();
        assert!(error.contains("has locked the database"), "{error}");
    });
    while block_on(log.flush()).is_err() {}
    assert_eq!(ids(&log.reader().query(&Filter::default()).unwrap()), ["r1", "r2"]);
}

/// A gateway that was stopped in the middle of a transaction must not stop the others for ever.
#[test]
fn stopped_writer_holds_the_log_for_seconds_only() {
    let Some(database) = TestDatabase::new() else { return };
    let log = database.open();
    write(&log, record(1)).unwrap();
    let settings =
        "SELECT setting FROM pg_stat_activity, pg_settings WHERE name = 'idle_in_transaction_session_timeout' LIMIT 1";
    assert_eq!(database.sql(settings), "0", "the server's own setting is another one");
    std::thread::scope(|scope| {
        // A session with the settings of a gateway, which says nothing more once it has the lock.
        let held = scope.spawn(|| {
            let sql =
                "SET idle_in_transaction_session_timeout = '1s'; BEGIN; SELECT * FROM fumehood.log_state FOR UPDATE;";
            let mut session = std::process::Command::new(
                std::path::Path::new(&std::env::var("FUMEHOOD_POSTGRES_BIN").unwrap()).join("psql"),
            )
            .args(["--no-psqlrc", "--quiet", "--dbname", &database.server.url(&database.name)])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
            std::io::Write::write_all(session.stdin.as_mut().unwrap(), format!("{sql}\n").as_bytes()).unwrap();
            std::thread::sleep(Duration::from_secs(4));
            session.kill().unwrap();
            session.wait().unwrap();
        });
        std::thread::sleep(Duration::from_millis(500));
        let began = Instant::now();
        write(&log, record(2)).unwrap();
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        held.join().unwrap();
    });
}

#[test]
fn record_that_the_server_does_not_take_is_refused_alone() {
    let Some(database) = TestDatabase::new() else { return };
    let log = database.open();
    let bad = Record { actor: Some("a\0b".to_owned()), ..record(2) };
    let answers: Vec<_> =
        [record(1), bad, record(3)].into_iter().map(|record| log.record(record, Durability::Durable)).collect();
    let answers: Vec<_> = answers.into_iter().map(block_on).collect();
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert!(answers[1].as_ref().unwrap_err().to_string().contains("NUL"), "{answers:?}");
    // A constraint of the operator's own, as an example of what a server refuses for its contents.
    database.sql("ALTER TABLE records ADD CHECK (tool <> 'forbidden')");
    let bad = Record { tool: Some("forbidden".to_owned()), ..record(4) };
    let answers: Vec<_> = [bad, record(5)].into_iter().map(|record| log.record(record, Durability::Durable)).collect();
    let answers: Vec<_> = answers.into_iter().map(block_on).collect();
    assert!(answers[0].as_ref().unwrap_err().to_string().contains("violates check constraint"), "{answers:?}");
    assert!(answers[1].is_ok(), "{answers:?}");
    assert_eq!(ids(&log.reader().query(&Filter::default()).unwrap()), ["r1", "r3", "r5"]);
    assert_eq!(log.reader().verify(None).unwrap().finding, None);
}

#[test]
fn standby_takes_no_records() {
    let Some(database) = TestDatabase::new() else { return };
    let log = database.open();
    database.sql(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name));
    drop(log);
    let error = EventLog::open_postgres(&database.address(), &writer(1)).unwrap_err().to_string();
    assert!(error.contains("is read-only, like a standby"), "{error}");
    assert_eq!(database.reader().query(&Filter::default()).unwrap(), []);
}

/// A reader may be used on a thread of an executor, as commands do.
#[tokio::test]
async fn log_may_be_used_inside_an_executor() {
    let Some(database) = TestDatabase::new() else { return };
    let log = Arc::new(database.open());
    log.record(record(1), Durability::Durable).await.unwrap();
    assert_eq!(log.reader().query(&Filter::default()).unwrap().len(), 1);
    let reader = Reader::open_postgres(&database.address(), &writer(1)).unwrap();
    assert_eq!(reader.verify(None).unwrap().rows, 1);
    drop(log);
}

const PLACE: &str = "FUMEHOOD_TEST_KILLED_POSTGRES_LOG";

/// Writes until the process is killed, if it was started by the test below.
#[test]
fn write_until_killed() {
    let Some(url) = std::env::var_os(PLACE) else { return };
    let log = EventLog::open_postgres(&address(url.to_str().unwrap()), &writer(1)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                let first = u64::from(std::process::id()) * 1_000_000;
                for number in first.. {
                    let record = record(number * 4 + thread);
                    let line = format!("\n{} kept\n", record.id);
                    write(log, record).unwrap();
                    std::io::Write::write_all(&mut std::io::stdout().lock(), line.as_bytes()).unwrap();
                }
            });
        }
    });
}

#[test]
fn no_acknowledged_record_is_lost_when_gateways_are_killed() {
    let Some(database) = TestDatabase::new() else { return };
    drop(database.open());
    let mut acknowledged = BTreeSet::new();
    for round in 0..3_u64 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "failures::write_until_killed", "--nocapture"])
            .env(PLACE, database.server.url(&database.name))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut out, &mut text).unwrap();
            text
        });
        std::thread::sleep(Duration::from_millis(700 + round * 137));
        child.kill().unwrap();
        child.wait().unwrap();
        let text = reading.join().unwrap();
        acknowledged.extend(text.lines().filter_map(|line| Some(line.strip_suffix(" kept")?.to_owned())));
    }
    let all = Filter { limit: Some(usize::MAX), ..Filter::default() };
    let found = database.reader().query(&all).unwrap();
    let kept: BTreeSet<String> = ids(&found).into_iter().map(str::to_owned).collect();
    assert_eq!(kept.len(), found.len(), "a record is there twice");
    let lost: Vec<_> = acknowledged.difference(&kept).collect();
    assert!(lost.is_empty(), "{lost:?} of {}", acknowledged.len());
    assert!(acknowledged.len() > 20, "only {} were acknowledged", acknowledged.len());
    assert_eq!(database.reader().verify(None).unwrap().finding, None);
}
