//! The behaviour that every log has, whichever database holds it. Each function begins with an empty log.

use std::time::Duration;

use fumehood_core::record::{Durability, Record, RecordError, RecordKind, Recorder as _};
use fumehood_core::saved_session::{SessionEntry, SessionStore as _};
use fumehood_core::time::Timestamp;
use fumehood_storage::event_log::{
    Checkpoint, Continuity, EventLog, Filter, Order, Problem, PruneReport, Reader, Retention, StoredRecord,
};
use futures_executor::block_on;
use serde_json::json;

/// An empty database for a log, which can be opened more than once.
pub trait Database {
    /// Opens the log for writing, always as the same writer.
    fn open(&self) -> EventLog;
    /// Opens the log for reading.
    fn reader(&self) -> Reader;
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

/// Writes a record, and waits until it is durable.
pub fn write(log: &EventLog, record: Record) -> Result<(), RecordError> {
    block_on(log.record(record, Durability::Durable))
}

/// Writes the records with these numbers, and waits until they are durable.
pub fn write_all(log: &EventLog, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        drop(log.record(record(number), Durability::Queued));
    }
    block_on(log.flush()).unwrap();
}

fn seqs(reader: &Reader, filter: &Filter) -> Vec<u64> {
    reader.query(filter).unwrap().iter().map(|row| row.seq).collect()
}

pub fn ids(rows: &[StoredRecord]) -> Vec<&str> {
    rows.iter().map(|row| row.record.id.as_str()).collect()
}

pub fn records_round_trip(database: &dyn Database) {
    let log = database.open();
    let sparse = Record { parent: None, actor: None, tool: None, call: None, status: None, ..record(2) };
    let mut records = vec![record(1), sparse];
    for (number, kind) in (3..).zip(RecordKind::ALL) {
        records.push(Record { kind, at: Timestamp(number * 40_000_000_000), ..record(number) });
    }
    records.push(Record {
        at: Timestamp(u64::MAX),
        tool: Some("t".repeat(20_000)),
        id: "i".repeat(20_000),
        ..record(1)
    });
    for record in &records {
        write(&log, record.clone()).unwrap();
    }
    let found = log.reader().query(&Filter::default()).unwrap();
    let mut expected = records;
    // Signed integers end there.
    expected.last_mut().unwrap().at = Timestamp(i64::MAX as u64);
    assert_eq!(found.into_iter().map(|row| row.record).collect::<Vec<_>>(), expected);
    assert_eq!(log.reader().verify(None).unwrap().finding, None);
}

pub fn filters_find_records(database: &dyn Database) {
    let log = database.open();
    for number in 1..=9 {
        let mut record = record(number);
        record.session = format!("s{}", number % 2);
        record.tool = Some(format!("t{}", number % 3));
        record.kind = if number < 5 { RecordKind::Verdict } else { RecordKind::ToolRejected };
        record.status = Some(if number == 7 { "denied" } else { "ok" }.to_owned());
        record.actor = (number == 3).then(|| "bob".to_owned());
        write(&log, record).unwrap();
    }
    let all = Filter::default();
    let some = |value: &str| Some(value.to_owned());
    let check =
        |filter: Filter, expected: &[u64]| assert_eq!(seqs(&database.reader(), &filter), expected, "{filter:?}");
    check(all.clone(), &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    check(Filter { session: some("s0"), ..all.clone() }, &[2, 4, 6, 8]);
    check(Filter { tool: some("t0"), ..all.clone() }, &[3, 6, 9]);
    check(Filter { kind: Some(RecordKind::Verdict), ..all.clone() }, &[1, 2, 3, 4]);
    check(Filter { status: some("denied"), ..all.clone() }, &[7]);
    check(Filter { call: some("call-5"), ..all.clone() }, &[5]);
    check(Filter { actor: some("bob"), ..all.clone() }, &[3]);
    check(Filter { since: Some(Timestamp(1_003)), until: Some(Timestamp(1_005)), ..all.clone() }, &[3, 4]);
    check(Filter { session: some("s0"), tool: some("t0"), ..all.clone() }, &[6]);
    check(Filter { tool: some("' OR 1 --"), ..all.clone() }, &[]);
    check(Filter { tool: some("a\0b"), ..all.clone() }, &[]);
    check(Filter { limit: Some(2), ..all.clone() }, &[1, 2]);
    check(Filter { limit: Some(2), after_seq: Some(2), ..all.clone() }, &[3, 4]);
    check(Filter { after_seq: Some(2), order: Order::Descending, ..all.clone() }, &[1]);
    check(Filter { limit: Some(2), order: Order::Descending, ..all }, &[9, 8]);
}

pub fn calls_are_shown_with_their_history(database: &dyn Database) {
    let log = database.open();
    let chain = [("start", None, None), ("asked", Some("start"), None), ("other", Some("asked"), Some("b"))];
    let call = [("verdict", Some("asked"), Some("a")), ("ran", Some("verdict"), Some("a"))];
    let after = [("answer", Some("ran"), None), ("end", Some("answer"), None)];
    for (id, parent, call) in chain.into_iter().chain(call).chain(after) {
        let id = id.to_owned();
        let parent = parent.map(str::to_owned);
        let call = call.map(str::to_owned);
        write(&log, Record { id, parent, call, ..record(1) }).unwrap();
    }
    let elsewhere = Record { session: "later".to_owned(), call: Some("a".to_owned()), parent: None, ..record(2) };
    write(&log, elsewhere).unwrap();
    let shown = log.reader().show("a", None).unwrap();
    assert_eq!(shown.iter().map(|call| call.session.as_str()).collect::<Vec<_>>(), ["later", "s"]);
    let shown = log.reader().show("a", Some("s")).unwrap();
    assert_eq!(shown.len(), 1);
    assert_eq!(ids(&shown[0].before), ["start", "asked"]);
    assert_eq!(ids(&shown[0].call), ["verdict", "ran"]);
    assert_eq!(ids(&shown[0].after), ["answer", "end"]);
    assert_eq!(log.reader().show("nothing", None).unwrap(), []);
    write(&log, record_of_cycle("c1", "c2", "x")).unwrap();
    write(&log, record_of_cycle("c2", "c1", "y")).unwrap();
    let shown = log.reader().show("x", None).unwrap();
    assert_eq!((shown[0].before.len(), shown[0].call.len(), shown[0].after.len()), (1, 1, 0));
}

/// Returns a record of a forged cycle.
fn record_of_cycle(id: &str, parent: &str, call: &str) -> Record {
    Record { id: id.to_owned(), parent: Some(parent.to_owned()), call: Some(call.to_owned()), ..record(1) }
}

pub fn ids_of_models_find_calls(database: &dyn Database) {
    let log = database.open();
    for record in [
        record_of_call(1, "one", "call_1_1"),
        record_of_call(2, "two", "call_1_1"),
        record_of_call(3, "three", "one"),
        record_of_call(4, "four", "a\0"),
    ] {
        write(&log, record).unwrap();
    }
    let found = |id: &str| {
        let calls = log.reader().show(id, None).unwrap();
        calls.iter().map(|call| call.call[0].record.call.clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(found("call_1_1"), ["two", "one"]);
    assert_eq!(found("one"), ["one"], "an id of a call goes before one of a model");
    assert_eq!(log.reader().verify(None).unwrap().finding, None);
}

fn record_of_call(number: u64, call: &str, model_call: &str) -> Record {
    Record { call: Some(call.to_owned()), body: json!({ "model_call": model_call }), ..record(number) }
}

pub fn prefixes_find_calls(database: &dyn Database) {
    let log = database.open();
    let long = "l".repeat(70);
    let ids = ["9f3ab21c00d4", "9f3ab21c0fff", "70cc", "7", "\u{e4}\u{e4}", &format!("{long}1"), &format!("{long}2")];
    for (number, call) in (1..).zip(ids) {
        let record = |number| Record { call: Some(call.to_owned()), ..record(number) };
        write(&log, record(number)).unwrap();
        write(&log, record(number + 100)).unwrap();
    }
    let reader = log.reader();
    let found = |prefix: &str| reader.calls_with_prefix(prefix, 3).unwrap();
    assert_eq!(found("9f3ab21"), ["9f3ab21c00d4", "9f3ab21c0fff"]);
    assert_eq!(found("9f3ab21c0f"), ["9f3ab21c0fff"]);
    assert_eq!((found("70"), found("\u{e4}")), (vec!["70cc".to_owned()], vec!["\u{e4}\u{e4}".to_owned()]));
    assert_eq!(found("l").len(), 2);
    assert_eq!((found("8"), found("7\0")), (vec![], vec![]));
    let short = |call: &'static str| reader.abbreviate_call(call).unwrap();
    assert_eq!((short("9f3ab21c00d4"), short("9f3ab21c0fff"), short("70cc")), ("9f3ab21c00", "9f3ab21c0f", "70cc"));
    let of_long = format!("{long}1");
    assert_eq!(reader.abbreviate_call(&of_long).unwrap(), of_long);
}

pub fn exports_json_lines(database: &dyn Database) {
    let log = database.open();
    write_all(&log, 1..=1201);
    let mut out = Vec::new();
    assert_eq!(log.reader().export(&Filter::default(), &mut out).unwrap(), 1201);
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[1200]["seq"]), (1201, &json!(1201)));
    assert_eq!(serde_json::from_value::<Record>(lines[6].clone()).unwrap(), record(7));
}

pub fn followers_see_records_of_others(database: &dyn Database) {
    let log = database.open();
    write_all(&log, 1..=2);
    let mut follow = database.reader().follow(Filter::default());
    assert_eq!(follow.next(Duration::ZERO).unwrap().len(), 2);
    assert_eq!(follow.next(Duration::from_millis(20)).unwrap(), []);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            write(&log, record(3)).unwrap();
        });
        let new = follow.next(Duration::from_secs(20)).unwrap();
        assert_eq!(ids(&new), ["r3"]);
    });
}

pub fn repeated_records_are_written_once(database: &dyn Database) {
    let log = database.open();
    write(&log, record(1)).unwrap();
    write(&log, record(1)).unwrap();
    let other = Record { id: "r1".to_owned(), ..record(2) };
    assert!(write(&log, other).unwrap_err().to_string().contains("belongs to another record"));
    write(&log, record(3)).unwrap();
    assert_eq!(ids(&log.reader().query(&Filter::default()).unwrap()), ["r1", "r3"]);
    assert_eq!(log.reader().verify(None).unwrap().rows, 2);
}

pub fn records_are_written_without_waiting(database: &dyn Database) {
    let log = database.open();
    for number in 1..=100 {
        let durability = if number % 2 == 0 { Durability::Durable } else { Durability::Queued };
        drop(log.record(record(number), durability));
    }
    block_on(log.flush()).unwrap();
    drop(log.record(record(101), Durability::Deferred));
    drop(log);
    assert_eq!(seqs(&database.reader(), &Filter::default()), (1..=101).collect::<Vec<_>>());
    let report = database.reader().verify(None).unwrap();
    assert_eq!((report.rows, report.sealed_up_to, report.finding), (101, 101, None));
}

pub fn anchors_seal_rows(database: &dyn Database) {
    let log = database.open();
    write_all(&log, 1..=1500);
    let open = database.reader().verify(None).unwrap();
    assert_eq!((open.rows, open.sealed_up_to, open.seals_checked, open.finding), (1500, 1024, true, None));
    log.close().unwrap();
    let closed = database.reader().verify(None).unwrap();
    assert_eq!((closed.rows, closed.sealed_up_to, closed.finding), (1500, 1500, None));
    let log = database.open();
    write(&log, Record { kind: RecordKind::SessionFinished, ..record(1501) }).unwrap();
    assert_eq!(database.reader().verify(None).unwrap().sealed_up_to, 1501);
}

pub fn checkpoints_are_found_again(database: &dyn Database) {
    let now = Timestamp(1_795_278_600_000);
    let log = database.open();
    let empty = log.reader().checkpoint(now).unwrap();
    write_all(&log, 1..=10);
    let ten: Checkpoint = log.reader().checkpoint(now).unwrap().to_string().parse().unwrap();
    assert_eq!((empty.mark.seq, ten.mark.seq, ten.log), (0, 10, empty.log));
    write_all(&log, 11..=30);
    for checkpoint in [&empty, &ten] {
        let report = log.reader().verify_since(&[*checkpoint]).unwrap();
        assert_eq!((report.continuity, report.finding, report.last), (Some(Continuity::Proven), None, 30));
    }
    block_on(log.retain(Retention::Newest(10))).unwrap();
    assert_eq!(log.reader().verify_since(&[ten]).unwrap().continuity, Some(Continuity::Removed));
    let other = Checkpoint { log: fumehood_storage::event_log::LogId([9; 16]), ..ten };
    assert_eq!(log.reader().verify_since(&[other]).unwrap().finding.unwrap().problem, Problem::OtherLog);
}

pub fn pruned_logs_still_verify(database: &dyn Database) {
    let log = database.open();
    write_all(&log, 1..=9000);
    assert_eq!(block_on(log.retain(Retention::Newest(3000))), Ok(PruneReport { removed: 6000, up_to: 6000 }));
    let report = database.reader().verify(None).unwrap();
    assert_eq!((report.rows, report.pruned_up_to, report.finding), (3000, 6000, None));
    let since = Retention::Since(Timestamp(1_000 + 8_001));
    assert_eq!(block_on(log.retain(since)), Ok(PruneReport { removed: 2000, up_to: 8000 }));
    assert_eq!(block_on(log.retain(Retention::Newest(5000))), Ok(PruneReport { removed: 0, up_to: 8000 }));
    assert_eq!(seqs(log.reader(), &Filter { limit: Some(1), ..Filter::default() }), [8001]);
    assert_eq!(block_on(log.retain(Retention::Newest(0))), Ok(PruneReport { removed: 1000, up_to: 9000 }));
    write_all(&log, 9001..=9010);
    log.close().unwrap();
    let report = database.reader().verify(None).unwrap();
    assert_eq!((report.rows, report.pruned_up_to, report.sealed_up_to, report.finding), (10, 9000, 9010, None));
    let log = database.open();
    write_all(&log, 9011..=9011);
    assert_eq!(log.reader().last().unwrap().unwrap().seq, 9011);
}

pub fn sessions_are_saved_with_their_records(database: &dyn Database) {
    let log = database.open();
    block_on(log.append(session_entry("a", 0, "head"), vec![])).unwrap();
    block_on(log.append(session_entry("a", 1, "one"), vec![record(1), record(2)])).unwrap();
    block_on(log.append(session_entry("a", 1, "one"), vec![record(1), record(2)])).unwrap();
    block_on(log.append(session_entry("b", 7, "other"), vec![])).unwrap();
    let refused = block_on(log.append(session_entry("a", 0, "another"), vec![record(3)])).unwrap_err().to_string();
    assert!(refused.contains("session a was continued by another process"), "{refused}");
    log.close().unwrap();

    let log = database.open();
    let reader = database.reader();
    assert_eq!(reader.session_entries("a").unwrap(), [session_entry("a", 0, "head"), session_entry("a", 1, "one")]);
    assert_eq!(reader.session_entries("c").unwrap(), []);
    let listed = reader.saved_sessions().unwrap();
    assert_eq!(listed.iter().map(|info| info.session.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!((listed[1].entries, listed[1].bytes, listed[1].changed_at), (2, 7, Timestamp(10)));
    assert_eq!(ids(&reader.query(&Filter::default()).unwrap()), ["r1", "r2"]);
    assert!(block_on(log.remove_session("a")).unwrap());
    assert!(!block_on(log.remove_session("a")).unwrap());
    assert_eq!(reader.session_entries("a").unwrap(), []);
    assert_eq!(reader.query(&Filter::default()).unwrap().len(), 2, "the records stay");
}

fn session_entry(session: &str, number: u64, content: &str) -> SessionEntry {
    SessionEntry { session: session.to_owned(), number, at: Timestamp(number * 10), content: content.to_owned() }
}

pub fn writers_at_once_lose_nothing(database: &dyn Database) {
    let one = database.open();
    let two = database.open();
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=200).for_each(|number| write(&one, record(number)).unwrap()));
        scope.spawn(|| (201..=400).for_each(|number| write(&two, record(number)).unwrap()));
    });
    let report = one.reader().verify(None).unwrap();
    assert_eq!((report.rows, report.finding), (400, None));
    assert_eq!(seqs(one.reader(), &Filter::default()), (1..=400).collect::<Vec<_>>());
}
