//! Verification detects every change of the file, and reports the first.

use std::path::Path;

use super::temporary_path;
use crate::suite::{record, write, write_all};
use fumehood_core::record::{Record, RecordKind};
use fumehood_core::time::Timestamp;
use fumehood_storage::event_log::{EventLog, Filter, Options, Problem, PruneReport, Reader, Report, Retention};
use futures_executor::block_on;
use rusqlite::Connection;

fn verify(path: &Path) -> Report {
    Reader::open(path, &Options::default()).unwrap().verify(None).unwrap()
}

/// Expects this finding in a closed log of ten records after `sql` was run on it.
fn check(sql: &str, seq: u64, problem: Problem, words: &str) {
    check_of(10, sql, seq, problem, words);
}

fn check_of(rows: u64, sql: &str, seq: u64, problem: Problem, words: &str) {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &Options::default()).unwrap();
    write_all(&log, 1..=rows);
    log.close().unwrap();
    assert_eq!(verify(&path).finding, None);
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let finding = verify(&path).finding.unwrap_or_else(|| panic!("nothing found after: {sql}"));
    assert_eq!((finding.seq, &finding.problem), (seq, &problem), "{sql}");
    assert_eq!(finding.to_string(), words);
}

#[test]
fn intact_log_verifies() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &Options::default()).unwrap();
    write_all(&log, 1..=1500);
    let open = verify(&path);
    assert_eq!((open.rows, open.sealed_up_to, open.finding), (1500, 1024, None));
    log.close().unwrap();
    let closed = verify(&path);
    assert_eq!((closed.rows, closed.sealed_up_to, closed.seals_checked, closed.finding), (1500, 1500, true, None));
    let log = EventLog::open(&path, &Options::default()).unwrap();
    write(&log, Record { kind: RecordKind::SessionFinished, ..record(1501) }).unwrap();
    assert_eq!(verify(&path).sealed_up_to, 1501);
}

#[test]
fn detects_an_edit_of_every_column() {
    let edited = "row 4 was edited: it does not match its hash";
    let columns =
        ["id", "parent", "session", "at", "kind", "actor", "tool", "digest", "call", "status", "body", "content"];
    for column in columns {
        let value = if column == "at" { "at + 1" } else { "'7'" };
        let value = if column == "content" { "zeroblob(32)" } else { value };
        check(&format!("UPDATE records SET {column} = {value} WHERE seq = 4"), 4, Problem::Edited, edited);
    }
    check("UPDATE records SET parent = NULL WHERE seq = 4", 4, Problem::Edited, edited);
    let replaced = "row 4 does not follow the row before it: it was replaced or moved, or one was removed";
    check("UPDATE records SET hash = zeroblob(32) WHERE seq = 4", 4, Problem::Replaced, replaced);
    check("UPDATE records SET hash = x'00' WHERE seq = 4", 4, Problem::Replaced, replaced);
}

#[test]
fn reports_the_first_of_several_changes() {
    let both = "UPDATE records SET body = '1' WHERE seq IN (3, 7)";
    check(both, 3, Problem::Edited, "row 3 was edited: it does not match its hash");
}

#[test]
fn detects_removed_rows() {
    let missing = |through| Problem::Missing { through };
    check("DELETE FROM records WHERE seq = 1", 1, missing(1), "row 1 was removed");
    check("DELETE FROM records WHERE seq BETWEEN 4 AND 6", 4, missing(6), "rows 4 to 6 were removed");
    check("DELETE FROM records WHERE seq > 8", 9, missing(10), "rows 9 to 10 were removed");
    check("DELETE FROM records", 1, missing(10), "rows 1 to 10 were removed");
    let renumbered = "DELETE FROM records WHERE seq = 4; UPDATE records SET seq = seq - 1 WHERE seq > 4";
    let words = "row 4 does not follow the row before it: it was replaced or moved, or one was removed";
    check(renumbered, 4, Problem::Replaced, words);
}

#[test]
fn detects_reordered_rows() {
    check(&swap_rows(4, 5), 4, Problem::Moved { from: 5 }, "row 4 was moved: it was written as row 5");
    check(&swap_rows(2, 9), 2, Problem::Moved { from: 9 }, "row 2 was moved: it was written as row 9");
}

fn swap_rows(a: u64, b: u64) -> String {
    format!(
        "UPDATE records SET seq = -1 WHERE seq = {a}; UPDATE records SET seq = {a} WHERE seq = {b};
             UPDATE records SET seq = {b} WHERE seq = -1"
    )
}

#[test]
fn detects_a_forged_or_missing_anchor() {
    let forged = "the anchor of row 10 is forged, or the key belongs to another log";
    check("UPDATE anchors SET seal = zeroblob(32)", 10, Problem::AnchorForged, forged);
    check("UPDATE anchors SET reason = 'cut'", 10, Problem::AnchorForged, forged);
    let gone = "the anchor of row 1024 was removed";
    check_of(1030, "DELETE FROM anchors WHERE seq = 1024", 1024, Problem::AnchorMissing, gone);
    let cut = "DELETE FROM records WHERE seq > 1025; DELETE FROM anchors WHERE seq > 1025";
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &Options::default()).unwrap();
    write_all(&log, 1..=1030);
    let mark = log.reader().last().unwrap().unwrap();
    log.close().unwrap();
    Connection::open(&path).unwrap().execute_batch(cut).unwrap();
    assert_eq!(verify(&path).finding, None, "only a mark kept elsewhere detects this");
    let reader = Reader::open(&path, &Options::default()).unwrap();
    let found = reader.verify(Some(mark)).unwrap().finding.unwrap();
    assert_eq!((found.seq, found.problem), (1026, Problem::Missing { through: 1030 }));
}

#[test]
fn detects_a_recomputed_chain_at_its_anchor() {
    // An attacker with the database and this code, but without the key: the new chain is consistent.
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &Options::default()).unwrap();
    write_all(&log, 1..=10);
    let mark = log.reader().last().unwrap().unwrap();
    log.close().unwrap();
    let forged = path.with_extension("forged");
    std::fs::copy(&path, &forged).unwrap();
    let database = Connection::open(&forged).unwrap();
    database.execute_batch("DELETE FROM records; DELETE FROM anchors").unwrap();
    drop(database);
    let log = EventLog::open(&forged, &Options { key: Some([9; 32]), ..Options::default() }).unwrap();
    for number in 1..=10 {
        write(&log, Record { body: serde_json::json!("nothing to see"), ..record(number) }).unwrap();
    }
    log.close().unwrap();
    let own = Reader::open(&forged, &Options { key: Some([9; 32]), ..Options::default() }).unwrap();
    assert_eq!(own.verify(None).unwrap().finding, None, "without the original key it looks intact");
    assert_eq!(own.verify(Some(mark)).unwrap().finding.unwrap().problem, Problem::NotAsMarked);
    std::fs::rename(&forged, &path).unwrap();
    assert_eq!(verify(&path).finding.unwrap().problem, Problem::AnchorForged);
    let anchor = "UPDATE anchors SET (hash, seal) = (SELECT hash, seal FROM old.anchors)";
    let (_other, genuine) = temporary_path();
    let key: [u8; 32] = std::fs::read(path.with_extension("db.key")).unwrap().try_into().unwrap();
    let log = EventLog::open(&genuine, &Options { key: Some(key), ..Options::default() }).unwrap();
    write_all(&log, 1..=10);
    log.close().unwrap();
    let database = Connection::open(&path).unwrap();
    database.execute("ATTACH ?1 AS old", [genuine.to_str().unwrap()]).unwrap();
    database.execute_batch(anchor).unwrap();
    assert_eq!(verify(&path).finding.unwrap().problem, Problem::AnchorForged, "a seal of another log of this key");
}

#[test]
fn reports_a_rewritten_range_up_to_its_anchor() {
    let (_folder, path) = temporary_path();
    let options = Options { key: Some([1; 32]), ..Options::default() };
    let log = EventLog::open(&path, &options).unwrap();
    write_all(&log, 1..=5);
    log.close().unwrap();
    // The original anchor, put back over a different chain.
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch("CREATE TABLE kept AS SELECT * FROM anchors; DELETE FROM anchors; DELETE FROM records")
        .unwrap();
    drop(database);
    let log = EventLog::open(&path, &options).unwrap();
    write_all(&log, 2..=6);
    log.close().unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch("DELETE FROM anchors; INSERT INTO anchors SELECT * FROM kept")
        .unwrap();
    let finding = Reader::open(&path, &options).unwrap().verify(None).unwrap().finding.unwrap();
    assert_eq!(finding.to_string(), "rows 1 to 5 were rewritten: they do not match the anchor at row 5");
}

#[test]
fn detects_an_index_that_hides_a_row() {
    let hide = "PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = replace(sql, '(session)', '(tool)') WHERE name = 'records_by_session'";
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &Options::default()).unwrap();
    write_all(&log, 1..=3);
    log.close().unwrap();
    Connection::open(&path).unwrap().execute_batch(hide).unwrap();
    assert!(matches!(verify(&path).finding.unwrap().problem, Problem::Structure(_)));
}

#[test]
fn pruned_log_still_verifies() {
    let (_folder, path) = temporary_path();
    let log = EventLog::open(&path, &Options::default()).unwrap();
    write_all(&log, 1..=9000);
    assert_eq!(block_on(log.retain(Retention::Newest(3000))), Ok(PruneReport { removed: 6000, up_to: 6000 }));
    let report = verify(&path);
    assert_eq!((report.rows, report.pruned_up_to, report.finding), (3000, 6000, None));
    assert_eq!(
        block_on(log.retain(Retention::Since(Timestamp(1_000 + 8_001)))),
        Ok(PruneReport { removed: 2000, up_to: 8000 })
    );
    assert_eq!(block_on(log.retain(Retention::Newest(5000))), Ok(PruneReport { removed: 0, up_to: 8000 }));
    let first = log.reader().query(&Filter { limit: Some(1), ..Filter::default() }).unwrap();
    assert_eq!(first[0].seq, 8001);
    assert_eq!(block_on(log.retain(Retention::Newest(0))), Ok(PruneReport { removed: 1000, up_to: 9000 }));
    write_all(&log, 9001..=9010);
    log.close().unwrap();
    let report = verify(&path);
    assert_eq!((report.rows, report.pruned_up_to, report.sealed_up_to, report.finding), (10, 9000, 9010, None));
    let log = EventLog::open(&path, &Options::default()).unwrap();
    write_all(&log, 9011..=9011);
    assert_eq!(log.reader().last().unwrap().unwrap().seq, 9011);
}

#[test]
fn detects_forged_pruning() {
    let cut = "INSERT INTO anchors SELECT seq, 'cut', hash, zeroblob(32) FROM records WHERE seq = 4;
        DELETE FROM records WHERE seq <= 4";
    let words = "the anchor of row 4 is forged, or the key belongs to another log";
    check(cut, 4, Problem::AnchorForged, words);
}
