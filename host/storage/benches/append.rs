//! Throughput of the event log, compared with plain inserts into SQLite, and in PostgreSQL if the tests have a server.
//!
//! `cargo bench -p fumehood-storage --features postgres --bench append`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fumehood_core::record::{Durability, Record, RecordKind, Recorder};
use fumehood_core::time::Timestamp;
use fumehood_storage::event_log::{EventLog, Options};
use futures_executor::block_on;
use rusqlite::Connection;
use serde_json::json;

const FOR: Duration = Duration::from_secs(3);

fn record(number: u64) -> Record {
    Record {
        id: format!("01J{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        parent: Some(format!("01J{number:016x}")),
        session: format!("session-{}", number / 100),
        at: Timestamp(1_700_000_000_000 + number),
        kind: RecordKind::ToolFinished,
        actor: Some("ann".to_owned()),
        tool: Some("calculator__add".to_owned()),
        digest: Some("sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824".to_owned()),
        call: Some(format!("call-{number}")),
        status: Some("ok".to_owned()),
        body: json!({"arguments": {"a": 3, "b": 5}, "content": [{"type": "text", "text": "8"}],
            "metadata": {"bytes": 1, "duration_ms": 0.34, "fuel_used": 1234, "peak_memory": 1_114_112}}),
    }
}

/// Measures durable records per second, with this number of threads that each wait for one record after the other.
fn measure_durable(log: &EventLog, writers: u64) -> f64 {
    measure_durable_from(log, writers, 1)
}

/// Like [`measure_durable`], with records from this number on.
fn measure_durable_from(log: &EventLog, writers: u64, first: u64) -> f64 {
    let next = AtomicU64::new(first);
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| {
                while started.elapsed() < FOR {
                    let record = record(next.fetch_add(1, Ordering::Relaxed));
                    block_on(log.record(record, Durability::Durable)).expect("kept");
                }
            });
        }
    });
    (next.into_inner() - first) as f64 / started.elapsed().as_secs_f64()
}

/// Measures the delay of a caller by a queued record at 5000 records per second: the median and the 99th percentile.
fn measure_queued() -> (Duration, Duration) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = EventLog::open(folder.path().join("events.db"), &Options::default()).expect("a log");
    let mut times: Vec<Duration> = (1..=15_000)
        .map(|number| {
            let record = record(number);
            let started = Instant::now();
            block_on(log.record(record, Durability::Queued)).expect("taken");
            let time = started.elapsed();
            thread::sleep(Duration::from_micros(150));
            time
        })
        .collect();
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

/// Measures inserts of the same rows into a plain table, each in a transaction of its own.
fn measure_plain_inserts() -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Connection::open(folder.path().join("raw.db")).expect("a database");
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
        CREATE TABLE records (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, record TEXT)";
    database.execute_batch(settings).expect("a table");
    let started = Instant::now();
    let mut done = 0;
    while started.elapsed() < FOR {
        done += 1;
        let record = record(done);
        let text = serde_json::to_string(&record).expect("JSON");
        let mut insert = database.prepare_cached("INSERT INTO records (id, record) VALUES (?1, ?2)").expect("SQL");
        insert.execute([&record.id, &text]).expect("inserted");
    }
    done as f64 / started.elapsed().as_secs_f64()
}

/// Measures the rows per second of `verify`.
fn measure_verify() -> f64 {
    const ROWS: u64 = 100_000;
    let log = EventLog::in_memory(&Options::default()).expect("a log");
    for number in 1..=ROWS {
        block_on(log.record(record(number), Durability::Queued)).expect("taken");
    }
    block_on(log.flush()).expect("flushed");
    let started = Instant::now();
    assert_eq!(log.reader().verify(None).expect("read").finding, None, "the log is in order");
    ROWS as f64 / started.elapsed().as_secs_f64()
}

/// Measures the same in a PostgreSQL server that flushes each commit to its disk.
#[cfg(feature = "postgres")]
fn measure_postgres() {
    use fumehood_storage::postgres::{Server, ServerSettings};
    let Some(server) = fumehood_tests::postgres::Postgres::start_with(&["fsync=on"]).expect("a server") else { return };
    let open = |database: &str, key: u8| {
        let settings = ServerSettings { url: server.url(database), ..ServerSettings::default() };
        let options = Options { key: Some([key; 32]), ..Options::default() };
        EventLog::open_postgres(&Server::new(&settings).expect("settings"), &options).expect("a log")
    };
    for writers in [1, 8, 64, 256] {
        let database = format!("bench_{writers}");
        server.create_database(&database).expect("a database");
        let log = open(&database, 1);
        let rate = measure_durable(&log, writers);
        println!("PostgreSQL, {writers:>3} writers      {rate:>9.0} records/s");
        if writers == 64 {
            let started = Instant::now();
            let report = log.reader().verify(None).expect("read");
            assert_eq!(report.finding, None, "the log is in order");
            let rate = report.rows as f64 / started.elapsed().as_secs_f64();
            println!("PostgreSQL, verify           {rate:>9.0} rows/s");
        }
    }
    server.create_database("bench_two").expect("a database");
    let one = open("bench_two", 1);
    let two = open("bench_two", 2);
    let both = thread::scope(|scope| {
        let other = scope.spawn(|| measure_durable_from(&two, 32, 1 << 32));
        measure_durable(&one, 32) + other.join().expect("measured")
    });
    println!("PostgreSQL, 2 gateways with 32 {both:>7.0} records/s");
}

fn main() {
    println!("one by one without the log   {:>9.0} records/s", measure_plain_inserts());
    for writers in [1, 8, 64, 256] {
        let folder = tempfile::tempdir().expect("a folder");
        let log = EventLog::open(folder.path().join("events.db"), &Options::default()).expect("a log");
        println!("durable, {writers:>3} writers         {:>9.0} records/s", measure_durable(&log, writers));
    }
    let (p50, p99) = measure_queued();
    println!("queued: the caller waits     {p50:>9.1?} in the median, {p99:.1?} at the 99th percentile");
    println!("verify                       {:>9.0} rows/s", measure_verify());
    #[cfg(feature = "postgres")]
    measure_postgres();
}
