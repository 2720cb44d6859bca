//! Queries, pages, call histories, exports and following.

use std::time::Duration;

use super::temporary_path;
use crate::suite::{record, write, write_all};
use fumehood_core::record::{Durability, Record, RecordKind, Recorder};
use fumehood_core::time::Timestamp;
use fumehood_storage::event_log::{EventLog, Filter, Options, Order};
use futures_executor::block_on;

fn numbers(log: &EventLog, filter: &Filter) -> Vec<u64> {
    log.reader().query(filter).unwrap().iter().map(|row| row.seq).collect()
}

#[test]
fn record_round_trips() {
    let log = EventLog::in_memory(&Options::default()).unwrap();
    let sparse = Record { parent: None, actor: None, tool: None, call: None, status: None, ..record(2) };
    write(&log, record(1)).unwrap();
    write(&log, sparse.clone()).unwrap();
    let mut records = vec![record(1), sparse];
    for (number, kind) in (3..).zip(RecordKind::ALL) {
        records.push(Record { kind, ..record(number) });
        write(&log, Record { kind, ..record(number) }).unwrap();
    }
    let found = log.reader().query(&Filter::default()).unwrap();
    assert_eq!(found.into_iter().map(|row| row.record).collect::<Vec<_>>(), records);
    assert_eq!(log.reader().verify(None).unwrap().finding, None);
}

#[test]
fn records_are_found_by_every_part_of_a_filter() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &Options::default()).unwrap();
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
    assert_eq!(numbers(&log, &all), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(numbers(&log, &Filter { session: some("s0"), ..all.clone() }), [2, 4, 6, 8]);
    assert_eq!(numbers(&log, &Filter { tool: some("t0"), ..all.clone() }), [3, 6, 9]);
    assert_eq!(numbers(&log, &Filter { kind: Some(RecordKind::Verdict), ..all.clone() }), [1, 2, 3, 4]);
    assert_eq!(numbers(&log, &Filter { status: some("denied"), ..all.clone() }), [7]);
    assert_eq!(numbers(&log, &Filter { call: some("call-5"), ..all.clone() }), [5]);
    assert_eq!(numbers(&log, &Filter { actor: some("bob"), ..all.clone() }), [3]);
    let window = Filter { since: Some(Timestamp(1_003)), until: Some(Timestamp(1_005)), ..all.clone() };
    assert_eq!(numbers(&log, &window), [3, 4]);
    assert_eq!(numbers(&log, &Filter { session: some("s0"), tool: some("t0"), ..all.clone() }), [6]);
    assert_eq!(numbers(&log, &Filter { tool: some("' OR 1 --"), ..all }), [] as [u64; 0]);
}

#[test]
fn pages_continue_after_the_previous_one() {
    let log = EventLog::in_memory(&Options::default()).unwrap();
    write_all(&log, 1..=5);
    let mut page = Filter { limit: Some(2), ..Filter::default() };
    assert_eq!(numbers(&log, &page), [1, 2]);
    page.after_seq = Some(2);
    assert_eq!(numbers(&log, &page), [3, 4]);
    page.order = Order::Descending;
    assert_eq!(numbers(&log, &page), [1]);
    page.after_seq = None;
    assert_eq!(numbers(&log, &page), [5, 4]);
}

#[test]
fn a_call_is_shown_with_what_led_to_it_and_what_followed() {
    let log = EventLog::in_memory(&Options::default()).unwrap();
    let chain = [("start", None, None), ("asked", Some("start"), None), ("other", Some("asked"), Some("b"))];
    let call = [("verdict", Some("asked"), Some("a")), ("ran", Some("verdict"), Some("a"))];
    let after = [("answer", Some("ran"), None), ("end", Some("answer"), None)];
    for (id, parent, call) in chain.into_iter().chain(call).chain(after) {
        let id = id.to_owned();
        let parent = parent.map(str::to_owned);
        let call = call.map(str::to_owned);
        write(&log, Record { id, parent, call, ..record(1) }).unwrap();
    }
    let elsewhere = Record { session: "later".to_owned(), call: Some("a".to_owned()), ..record(2) };
    write(&log, elsewhere).unwrap();
    let shown = log.reader().show("a", None).unwrap();
    assert_eq!(shown.iter().map(|call| call.session.as_str()).collect::<Vec<_>>(), ["later", "s"]);
    let shown = log.reader().show("a", Some("s")).unwrap();
    assert_eq!(shown.len(), 1);
    assert_eq!(join_ids(&shown[0].before), "start asked");
    assert_eq!(join_ids(&shown[0].call), "verdict ran");
    assert_eq!(join_ids(&shown[0].after), "answer end");
    assert_eq!(log.reader().show("nothing", None).unwrap(), []);
}

fn join_ids(rows: &[fumehood_storage::event_log::StoredRecord]) -> String {
    rows.iter().map(|row| row.record.id.clone()).collect::<Vec<_>>().join(" ")
}

#[test]
fn model_call_id_finds_all_its_calls() {
    let log = EventLog::in_memory(&Options::default()).unwrap();
    for record in
        [record_of_call(1, "one", "call_1_1"), record_of_call(2, "two", "call_1_1"), record_of_call(3, "three", "one")]
    {
        write(&log, record).unwrap();
    }
    let found = |id: &str| {
        let calls = log.reader().show(id, None).unwrap();
        calls.iter().map(|call| call.call[0].record.call.clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(found("call_1_1"), ["two", "one"]);
    assert_eq!(found("one"), ["one"], "an id of a call goes before one of a model");
}

fn record_of_call(number: u64, call: &str, model_call: &str) -> Record {
    Record { call: Some(call.to_owned()), body: serde_json::json!({ "model_call": model_call }), ..record(number) }
}

#[test]
fn cycle_of_parents_terminates() {
    let log = EventLog::in_memory(&Options::default()).unwrap();
    write(&log, Record { parent: Some("r2".to_owned()), ..record(1) }).unwrap();
    write(&log, Record { parent: Some("r1".to_owned()), ..record(2) }).unwrap();
    let shown = log.reader().show("call-1", None).unwrap();
    assert_eq!((shown[0].before.len(), shown[0].call.len(), shown[0].after.len()), (1, 1, 0));
}

#[test]
fn exports_json_lines() {
    let log = EventLog::in_memory(&Options::default()).unwrap();
    write_all(&log, 1..=1201);
    let mut out = Vec::new();
    assert_eq!(log.reader().export(&Filter::default(), &mut out).unwrap(), 1201);
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1201);
    assert_eq!(lines[1200]["seq"], 1201);
    assert_eq!(lines[1200]["hash"].as_str().unwrap().len(), 64);
    assert_eq!(serde_json::from_value::<Record>(lines[6].clone()).unwrap(), record(7));
    let mut few = Vec::new();
    assert_eq!(log.reader().export(&Filter { limit: Some(3), ..Filter::default() }, &mut few).unwrap(), 3);
}

#[test]
fn follower_sees_records_of_another_connection() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &Options::default()).unwrap();
    write_all(&log, 1..=2);
    let mut follow = EventLog::open_read_only(&path, &Options::default()).unwrap().follow(Filter::default());
    assert_eq!(follow.next(Duration::ZERO).unwrap().len(), 2);
    assert_eq!(follow.next(Duration::from_millis(20)).unwrap(), []);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            write(&log, record(3)).unwrap();
        });
        let new = follow.next(Duration::from_secs(10)).unwrap();
        assert_eq!(new.iter().map(|row| row.seq).collect::<Vec<_>>(), [3]);
    });
}

#[test]
fn record_is_written_even_if_not_awaited() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &Options::default()).unwrap();
    for number in 1..=100 {
        let durability = if number % 2 == 0 { Durability::Durable } else { Durability::Queued };
        drop(log.record(record(number), durability));
    }
    block_on(log.flush()).unwrap();
    assert_eq!(numbers(&log, &Filter::default()), (1..=100).collect::<Vec<_>>());
}
