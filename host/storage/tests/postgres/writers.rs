//! Several writers, each with a key and a chain of its own.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use fumehood_core::time::Timestamp;
use fumehood_storage::event_log::{
    Checkpoint, Continuity, EventLog, Filter, Hash, JoinProblem, Mark, Options, Problem, ReadError, Reader, Retention,
};
use futures_executor::block_on;

use crate::harness::{TestDatabase, writer};
use crate::suite::{record, write};

#[test]
fn each_writer_has_a_chain_and_all_have_one_order() {
    let Some(database) = TestDatabase::new() else { return };
    let open = |number| EventLog::open_postgres(&database.address(), &writer(number)).unwrap();
    let one = open(1);
    let two = open(2);
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=150).for_each(|number| write(&one, record(number)).unwrap()));
        scope.spawn(|| (151..=300).for_each(|number| write(&two, record(number)).unwrap()));
    });
    drop(two);
    // The key finds the chain again.
    let two = open(2);
    write(&two, record(301)).unwrap();
    drop((one, two));
    let reader = Reader::open_postgres(&database.address(), &writer(1)).unwrap();
    let found = reader.query(&Filter::default()).unwrap();
    assert!(found.iter().map(|row| row.seq).eq(1..=301));
    let logs: BTreeSet<String> = found.iter().map(|row| row.writer.unwrap().log.to_string()).collect();
    assert_eq!(logs.len(), 2);
    let reports = reader.verify_all(&[]).unwrap();
    let checked: Vec<_> = reports.iter().map(|report| (report.rows, report.seals_checked)).collect();
    assert!(reports.iter().all(|report| report.finding.is_none()), "{reports:?}");
    assert!(checked.contains(&(150, true)) && checked.contains(&(151, false)), "{checked:?}");
}

#[test]
fn seals_of_other_writers_are_checked_with_their_keys() {
    let Some(database) = TestDatabase::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let key = |number: u8| folder.path().join("state").join(format!("{number}.key"));
    for number in 1..=2 {
        let options = Options { key_file: Some(key(number)), ..Options::default() };
        let log = EventLog::open_postgres(&database.address(), &options).unwrap();
        write(&log, record(u64::from(number))).unwrap();
        log.close().unwrap();
    }
    let without = Reader::open_postgres(&database.address(), &Options::default()).unwrap();
    assert!(without.key_error().is_some());
    assert!(without.verify_all(&[]).unwrap().iter().all(|report| !report.seals_checked));
    let one = key(1);
    let two = key(2);
    let with = without.with_key_files([one.as_path(), two.as_path()]).unwrap();
    let reports = with.verify_all(&[]).unwrap();
    assert!(reports.iter().all(|report| report.seals_checked && report.finding.is_none()), "{reports:?}");
    // A seal of one writer is none of another.
    database.sql(
        "UPDATE anchors SET seal = (SELECT seal FROM anchors o WHERE o.writer = 2 LIMIT 1),
            hash = (SELECT hash FROM anchors o WHERE o.writer = 2 LIMIT 1) WHERE writer = 1",
    );
    let found = with.verify_all(&[]).unwrap();
    assert_eq!(found[0].finding.as_ref().unwrap().problem, Problem::AnchorForged);
    assert_eq!(found[1].finding, None);
}

#[test]
fn checkpoints_name_the_writer() {
    let Some(database) = TestDatabase::new() else { return };
    for number in 1..=2 {
        let log = EventLog::open_postgres(&database.address(), &writer(number)).unwrap();
        write(&log, record(u64::from(number))).unwrap();
    }
    let reader = Reader::open_postgres(&database.address(), &writer(1)).unwrap();
    let checkpoints = reader.checkpoints(Timestamp(1)).unwrap();
    let reports = reader.verify_all(&checkpoints).unwrap();
    assert!(reports.iter().all(|report| report.continuity == Some(Continuity::Proven)), "{reports:?}");
    // All checkpoints count, in whatever order they were kept.
    let other = Checkpoint { mark: Mark { hash: Hash([7; 32]), ..checkpoints[0].mark }, ..checkpoints[0] };
    let problem =
        |kept: &[Checkpoint]| reader.verify_all(kept).unwrap().remove(0).finding.map(|finding| finding.problem);
    assert_eq!(problem(&[checkpoints[0], checkpoints[0]]), None);
    assert_eq!(problem(&[checkpoints[0], other]), Some(Problem::NotAsMarked));
    assert_eq!(problem(&[other, checkpoints[0]]), Some(Problem::NotAsMarked));
    // A writer that vanished as a whole is missed by its checkpoint alone.
    database.sql("DELETE FROM records WHERE writer = 2; DELETE FROM anchors WHERE writer = 2; DELETE FROM writers WHERE number = 2");
    assert!(reader.verify_all(&[]).unwrap().iter().all(|report| report.finding.is_none()));
    let reports = reader.verify_all(&checkpoints).unwrap();
    assert_eq!(reports.iter().filter(|report| report.finding.is_some()).count(), 1);
    let missing: Vec<&Checkpoint> = checkpoints.iter().filter(|checkpoint| checkpoint.log == reports[1].log).collect();
    assert_eq!((missing.len(), &reports[1].finding.as_ref().unwrap().problem), (1, &Problem::OtherLog));
}

#[test]
fn log_without_writers_has_no_checkpoint() {
    let Some(database) = TestDatabase::new() else { return };
    drop(EventLog::open_postgres(&database.address(), &writer(1)).unwrap());
    database.sql("DELETE FROM writers");
    let reader = Reader::open_postgres(&database.address(), &writer(1)).unwrap();
    assert_eq!(reader.checkpoint(Timestamp(1)), Err(ReadError::Empty));
    assert_eq!(reader.verify_all(&[]), Ok(Vec::new()));
}

#[test]
fn writer_without_a_key_is_refused() {
    let Some(database) = TestDatabase::new() else { return };
    let error = EventLog::open_postgres(&database.address(), &Options::default()).unwrap_err().to_string();
    assert!(error.contains("needs a separate key for this writer"), "{error}");
}

#[test]
fn joined_head_covers_the_chains_of_all_writers() {
    let Some(database) = TestDatabase::new() else { return };
    let open = |number| EventLog::open_postgres(&database.address(), &writer(number)).unwrap();
    let one = open(1);
    let two = open(2);
    let idle = open(3);
    (1..=3).for_each(|number| write(&one, record(number)).unwrap());
    (4..=5).for_each(|number| write(&two, record(number)).unwrap());
    let reader = Reader::open_postgres(&database.address(), &writer(1)).unwrap();
    let joined = reader.joined_head(Timestamp(1)).unwrap().unwrap();
    assert_eq!((joined.position, joined.writers), (5, 2));
    let verify = || reader.verify_joined(&joined).unwrap().unwrap();
    assert_eq!((verify().continuity, verify().finding), (Some(Continuity::Proven), None));
    // Writers go on, and new ones begin.
    write(&two, record(6)).unwrap();
    write(&idle, record(7)).unwrap();
    assert_eq!(verify().continuity, Some(Continuity::Proven));
    drop((one, two, idle));
    // Each is a database of its own that was changed.
    let check = |change: &str, expected: JoinProblem| {
        let copy = database.copy();
        copy.sql(change);
        let reader = Reader::open_postgres(&copy.address(), &writer(1)).unwrap();
        assert_eq!(reader.verify_joined(&joined).unwrap().unwrap().finding, Some(expected), "{change}");
    };
    let drop_writer = "DELETE FROM records WHERE writer = 2; DELETE FROM anchors WHERE writer = 2; DELETE FROM writers WHERE number = 2";
    check(drop_writer, JoinProblem::Writers { found: 1 });
    let roll_back = "DELETE FROM records WHERE writer = 1 AND seq = 3; DELETE FROM anchors WHERE writer = 1;
        UPDATE writers w SET seq = r.seq, hash = r.hash FROM records r WHERE number = 1 AND r.writer = 1 AND r.seq = 2";
    check(roll_back, JoinProblem::Heads);
    let restore = "DELETE FROM records WHERE position > 3; UPDATE log_state SET position = 3";
    check(restore, JoinProblem::Shortened { last: 3 });
    check("UPDATE records SET hash = content WHERE writer = 2 AND seq = 2", JoinProblem::Heads);
    check("UPDATE records SET position = position + 100 WHERE writer = 1 AND seq = 3", JoinProblem::Heads);
    check("UPDATE records SET position = 1 WHERE writer = 3", JoinProblem::Writers { found: 3 });
}

#[test]
fn joined_head_of_pruned_records_proves_nothing() {
    let Some(database) = TestDatabase::new() else { return };
    let open = |number| EventLog::open_postgres(&database.address(), &writer(number)).unwrap();
    let one = open(1);
    let two = open(2);
    (1..=3).for_each(|number| write(&one, record(number)).unwrap());
    write(&two, record(4)).unwrap();
    let reader = Reader::open_postgres(&database.address(), &writer(1)).unwrap();
    let joined = reader.joined_head(Timestamp(1)).unwrap().unwrap();
    let prune = |rows| block_on(one.retain(Retention::Newest(rows)));
    let verify = || reader.verify_joined(&joined).unwrap().unwrap().continuity;
    prune(1).unwrap();
    assert_eq!(verify(), Some(Continuity::Proven), "the head is still there");
    write(&one, record(5)).unwrap();
    prune(1).unwrap();
    assert_eq!(verify(), Some(Continuity::Proven), "the head is the last removed row");
    write(&one, record(6)).unwrap();
    prune(1).unwrap();
    assert_eq!(verify(), Some(Continuity::Removed));
}

#[test]
fn joined_head_of_every_position_is_found() {
    let Some(database) = TestDatabase::new() else { return };
    let logs: Vec<EventLog> =
        (1..=3).map(|number| EventLog::open_postgres(&database.address(), &writer(number)).unwrap()).collect();
    let reader = Reader::open_postgres(&database.address(), &writer(1)).unwrap();
    let mut kept = Vec::new();
    // The second writer begins late, and the third has one record.
    for number in 1..=40_u64 {
        let of = match number {
            20 => 2,
            11.. if number % 3 != 0 => 1,
            _ => 0,
        };
        write(&logs[of], record(number)).unwrap();
        kept.push(reader.joined_head(Timestamp(1)).unwrap().unwrap());
    }
    let verify = || kept.iter().map(|joined| reader.verify_joined(joined).unwrap().unwrap());
    assert!(verify().all(|report| report.continuity == Some(Continuity::Proven)), "{:?}", verify().collect::<Vec<_>>());
    // The first writer has 10 records up to position 10, and 10 of the other 30: the 12th has position 15, and the next 18.
    block_on(logs[0].retain(Retention::Newest(8))).unwrap();
    let expected = |position| if position >= 15 { Continuity::Proven } else { Continuity::Removed };
    for report in verify() {
        assert_eq!(report.continuity, Some(expected(report.joined.position)), "{report:?}");
    }
}

#[test]
fn comparison_with_a_joined_head_reads_few_rows() {
    let Some(database) = TestDatabase::new() else { return };
    let log = EventLog::open_postgres(&database.address(), &writer(1)).unwrap();
    (1..=3).for_each(|number| write(&log, record(number)).unwrap());
    drop(log);
    let reader = Reader::open_postgres(&database.address(), &writer(1)).unwrap();
    let joined = reader.joined_head(Timestamp(1)).unwrap().unwrap();
    drop(reader);
    database.sql(
        "INSERT INTO records (position, writer, seq, id, session, at, kind, body, content, hash)
            SELECT number, 1, number, number, 's', number, 'tool_finished', '{}', '', '' FROM generate_series(4, 20000) number;
         UPDATE writers SET seq = 20000; UPDATE log_state SET position = 20000",
    );
    // What a connection has read is counted at its end.
    let reads = || {
        let connections =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND backend_type = 'client backend'";
        let began = Instant::now();
        while database.sql(connections) != "0" {
            assert!(began.elapsed() < Duration::from_secs(60), "a connection stays");
        }
        let reads = "SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE relname LIKE 'records%'";
        database.sql(reads).parse::<u64>().unwrap()
    };
    let before = reads();
    let reader = Reader::open_postgres(&database.address(), &writer(1)).unwrap();
    assert_eq!(reader.verify_joined(&joined).unwrap().unwrap().continuity, Some(Continuity::Proven));
    drop(reader);
    let read = reads() - before;
    assert!((1..1000).contains(&read), "{read} rows were read");
}
