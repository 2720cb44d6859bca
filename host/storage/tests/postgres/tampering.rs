//! Verification detects every change of the tables, and reports the first.

use fumehood_storage::event_log::Problem;

use crate::harness::TestDatabase;
use crate::suite::{Database as _, write_all};

/// Expects this finding in a closed log of ten records after `sql` was run on it.
fn check(sql: &str, seq: u64, problem: Problem) {
    check_of(10, sql, seq, problem);
}

fn check_of(rows: u64, sql: &str, seq: u64, problem: Problem) {
    let Some(database) = TestDatabase::new() else { return };
    let log = database.open();
    write_all(&log, 1..=rows);
    log.close().unwrap();
    assert_eq!(database.reader().verify(None).unwrap().finding, None);
    database.sql(sql);
    let finding = database.reader().verify(None).unwrap().finding;
    let finding = finding.unwrap_or_else(|| panic!("nothing found after: {sql}"));
    assert_eq!((finding.seq, finding.problem), (seq, problem), "{sql}");
}

#[test]
fn detects_an_edit_of_every_column() {
    for column in ["id", "parent", "session", "kind", "actor", "tool", "digest", "call", "status", "body"] {
        check(&format!("UPDATE records SET {column} = '7' WHERE seq = 4"), 4, Problem::Edited);
    }
    check("UPDATE records SET at = at + 1 WHERE seq = 4", 4, Problem::Edited);
    check("UPDATE records SET at = 1795478400000 WHERE seq = 4", 4, Problem::Edited);
    check("UPDATE records SET parent = NULL WHERE seq = 4", 4, Problem::Edited);
    check("UPDATE records SET content = '\\x00' WHERE seq = 4", 4, Problem::Edited);
    check("UPDATE records SET hash = '\\x00' WHERE seq = 4", 4, Problem::Replaced);
    let words = "the column `model_call` of row 4 was changed".to_owned();
    check("UPDATE records SET model_call = 'x' WHERE seq = 4", 4, Problem::Structure(words));
    let words = "the position of row 4 was changed".to_owned();
    check("UPDATE records SET position = 2 WHERE seq = 4", 4, Problem::Structure(words));
}

#[test]
fn detects_removed_reordered_and_added_rows() {
    let missing = |through| Problem::Missing { through };
    check("DELETE FROM records WHERE seq = 1", 1, missing(1));
    check("DELETE FROM records WHERE seq BETWEEN 4 AND 6", 4, missing(6));
    check("DELETE FROM records WHERE seq > 8", 9, missing(10));
    check("DELETE FROM records", 1, missing(10));
    let renumbered = "DELETE FROM records WHERE seq = 4; UPDATE records SET seq = seq - 1 WHERE seq > 4";
    check(renumbered, 4, Problem::Replaced);
    let swap = "UPDATE records SET seq = 9 - seq WHERE seq IN (4, 5); UPDATE records SET position = seq";
    check(swap, 4, Problem::Moved { from: 5 });
    let columns = "writer, position + 10, seq, id, parent, session, at, kind, actor, tool, digest, call, status, body, model_call, content, hash";
    let twice =
        format!("INSERT INTO records ({}) SELECT {columns} FROM records WHERE seq = 4", columns.replace(" + 10", ""));
    check(&twice, 4, Problem::BackAgain);
    // Between two pages of the verification, too.
    check_of(1010, &twice.replace("seq = 4", "seq = 1000").replace("+ 10", "+ 2000"), 1000, Problem::BackAgain);
}

#[test]
fn detects_rows_cut_off_with_their_anchors_by_the_head() {
    let cut = "DELETE FROM records WHERE seq > 6; DELETE FROM anchors WHERE seq > 6";
    check(cut, 7, Problem::Missing { through: 10 });
    let words = "the table `writers` has a different head".to_owned();
    check("UPDATE writers SET hash = '\\x00'", 10, Problem::Structure(words));
}

#[test]
fn detects_forged_anchors_and_pruning() {
    check("UPDATE anchors SET seal = '\\x00'", 10, Problem::AnchorForged);
    check("UPDATE anchors SET reason = 'cut'", 10, Problem::AnchorForged);
    check_of(1030, "DELETE FROM anchors WHERE seq = 1024", 1024, Problem::AnchorMissing);
    let cut = "INSERT INTO anchors SELECT writer, seq, 'cut', hash, '\\x00' FROM records WHERE seq = 4;
        DELETE FROM records WHERE seq <= 4";
    check(cut, 4, Problem::AnchorForged);
}
