//! Checkpoints detect changes that no seal can: a log that was cut, replaced, or rewritten with its key.

use std::path::Path;

use super::temporary_path;
use crate::suite::{record, write, write_all};
use fumehood_core::record::Record;
use fumehood_core::time::Timestamp;
use fumehood_storage::event_log::{
    Checkpoint, Continuity, EventLog, KeyError, Mark, Options, Problem, Reader, Report, Retention,
};
use futures_executor::block_on;
use rusqlite::Connection;

const NOW: Timestamp = Timestamp(1_795_278_600_000);

fn reader(path: &Path) -> Reader {
    Reader::open(path, &Options::default()).unwrap()
}

/// Writes these records to a log, closes it, and returns its checkpoint, converted to text and back.
fn log_of(path: &Path, numbers: std::ops::RangeInclusive<u64>) -> Checkpoint {
    let log = EventLog::open(path, &Options::default()).unwrap();
    write_all(&log, numbers);
    log.close().unwrap();
    reader(path).checkpoint(NOW).unwrap().to_string().parse().unwrap()
}

fn since(path: &Path, checkpoint: &Checkpoint) -> Report {
    reader(path).verify_since(std::slice::from_ref(checkpoint)).unwrap()
}

fn problem(path: &Path, checkpoint: &Checkpoint) -> Problem {
    since(path, checkpoint).finding.unwrap().problem
}

#[test]
fn grown_log_still_matches_its_checkpoint() {
    let (_folder, path) = temporary_path();
    let checkpoint = log_of(&path, 1..=10);
    assert_eq!((checkpoint.mark.seq, checkpoint.at), (10, NOW));
    assert_eq!(since(&path, &checkpoint).continuity, Some(Continuity::Proven));
    log_of(&path, 11..=1100);
    let report = since(&path, &checkpoint);
    assert_eq!((report.continuity, report.finding, report.last), (Some(Continuity::Proven), None, 1100));
    assert_eq!(reader(&path).verify(None).unwrap().continuity, None);
}

#[test]
fn empty_log_has_a_checkpoint() {
    let (_folder, path) = temporary_path();
    let checkpoint = log_of(&path, std::ops::RangeInclusive::new(1, 0));
    assert_eq!(checkpoint.mark.seq, 0);
    log_of(&path, 1..=3);
    assert_eq!(since(&path, &checkpoint).continuity, Some(Continuity::Proven));
}

#[test]
fn detects_rows_cut_off_together_with_their_seals() {
    let (_folder, path) = temporary_path();
    let checkpoint = log_of(&path, 1..=10);
    let cut = "DELETE FROM records WHERE seq > 6; DELETE FROM anchors WHERE seq > 6";
    Connection::open(&path).unwrap().execute_batch(cut).unwrap();
    assert_eq!(reader(&path).verify(None).unwrap().finding, None, "no seal can detect this");
    assert_eq!(problem(&path, &checkpoint), Problem::Missing { through: 10 });
    let all = "DELETE FROM records; DELETE FROM anchors";
    Connection::open(&path).unwrap().execute_batch(all).unwrap();
    assert_eq!(problem(&path, &checkpoint), Problem::Missing { through: 10 });
}

#[test]
fn detects_a_log_rewritten_with_its_own_key() {
    let (_folder, path) = temporary_path();
    let checkpoint = log_of(&path, 1..=10);
    Connection::open(&path).unwrap().execute_batch("DELETE FROM records; DELETE FROM anchors").unwrap();
    let log = EventLog::open(&path, &Options::default()).unwrap();
    for number in 1..=12 {
        write(&log, Record { body: serde_json::json!("nothing to see"), ..record(number) }).unwrap();
    }
    log.close().unwrap();
    assert_eq!(reader(&path).verify(None).unwrap().finding, None, "its key sealed it");
    assert_eq!(problem(&path, &checkpoint), Problem::NotAsMarked);
}

#[test]
fn detects_a_rolled_back_log_that_outgrew_its_checkpoint() {
    let (_folder, path) = temporary_path();
    let early = log_of(&path, 1..=5);
    let lost = log_of(&path, 6..=10);
    let cut = "DELETE FROM records WHERE seq > 5; DELETE FROM anchors WHERE seq > 5";
    Connection::open(&path).unwrap().execute_batch(cut).unwrap();
    let log = EventLog::open(&path, &Options::default()).unwrap();
    for number in 20..=30 {
        write(&log, record(number)).unwrap();
    }
    log.close().unwrap();
    let late = reader(&path).checkpoint(NOW).unwrap();
    assert_eq!((lost.mark.seq, late.mark.seq), (10, 16));
    assert_eq!(reader(&path).verify_since(&[early, late]).unwrap().continuity, Some(Continuity::Proven));
    for kept in [[early, lost, late], [late, lost, early]] {
        let report = reader(&path).verify_since(&kept).unwrap();
        let finding = report.finding.unwrap();
        assert_eq!((finding.seq, finding.problem, report.continuity), (10, Problem::NotAsMarked, None));
    }
}

#[test]
fn detects_another_log_in_its_place() {
    let (_folder, path) = temporary_path();
    let checkpoint = log_of(&path, 1..=10);
    let (_other_folder, other) = temporary_path();
    log_of(&other, 1..=10);
    assert_eq!(problem(&other, &checkpoint), Problem::OtherLog);
}

#[test]
fn distinguishes_pruned_rows_from_missing_rows() {
    let (_folder, path) = temporary_path();
    let early = log_of(&path, 1..=10);
    let log = EventLog::open(&path, &Options::default()).unwrap();
    write_all(&log, 11..=30);
    let late = log.reader().checkpoint(NOW).unwrap();
    block_on(log.retain(Retention::Newest(10))).unwrap();
    log.close().unwrap();
    let report = since(&path, &late);
    assert_eq!((report.continuity, report.pruned_up_to, report.finding), (Some(Continuity::Proven), 20, None));
    // The row of the earlier checkpoint was pruned, so nothing can be compared and nothing is proven.
    let report = since(&path, &early);
    assert_eq!((report.continuity, report.finding), (Some(Continuity::Removed), None));
    assert_eq!(reader(&path).verify(Some(early.mark)).unwrap().continuity, Some(Continuity::Removed));
    // Two that differ contradict each other, whatever the row was.
    let other = Checkpoint { mark: Mark { hash: late.mark.hash, ..early.mark }, ..early };
    let contradiction = reader(&path).verify_since(&[early, other, late]).unwrap().finding.unwrap();
    assert_eq!((contradiction.seq, contradiction.problem), (10, Problem::NotAsMarked));
    Connection::open(&path).unwrap().execute_batch("DELETE FROM records WHERE seq = 21").unwrap();
    assert_eq!(problem(&path, &late), Problem::Missing { through: 21 });
}

#[test]
fn without_the_key_no_row_is_reported_as_sealed() {
    let (_folder, path) = temporary_path();
    let checkpoint = log_of(&path, 1..=10);
    let key = path.with_extension("db.key");
    std::fs::remove_file(&key).unwrap();
    assert!(matches!(reader(&path).key_error(), Some(KeyError::Missing(missing)) if *missing == key));
    let report = since(&path, &checkpoint);
    assert_eq!((report.seals_checked, report.continuity), (false, Some(Continuity::Proven)));
}

#[cfg(unix)]
#[test]
fn rejects_a_key_that_others_may_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, path) = temporary_path();
    log_of(&path, 1..=10);
    let key = path.with_extension("db.key");
    for mode in [0o640, 0o604, 0o620] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let reader = reader(&path);
        assert!(matches!(reader.key_error(), Some(KeyError::NotPrivate { mode: found, .. }) if *found == mode));
        assert!(!reader.verify(None).unwrap().seals_checked);
        assert!(EventLog::open(&path, &Options::default()).is_err(), "nothing is sealed with it any more");
    }
}

#[test]
fn creates_a_key_file_once_and_reads_both_forms() {
    let (folder, path) = temporary_path();
    let key = folder.path().join("elsewhere");
    let options = Options { key_file: Some(key.clone()), ..Options::default() };
    for number in 1..=2 {
        let log = EventLog::open(&path, &options).unwrap();
        write_all(&log, number..=number);
        log.close().unwrap();
    }
    assert!(!path.with_extension("db.key").exists());
    let bytes = std::fs::read(&key).unwrap();
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&key, format!("{digits}\n")).unwrap();
    let report = Reader::open(&path, &options).unwrap().verify(None).unwrap();
    assert_eq!((report.seals_checked, report.finding, report.sealed_up_to), (true, None, 2));
    std::fs::write(&key, "no key").unwrap();
    let reader = Reader::open(&path, &options).unwrap();
    assert!(matches!(reader.key_error(), Some(KeyError::Damaged { found: 6, .. })));
    std::fs::remove_file(&key).unwrap();
    std::fs::create_dir(&key).unwrap();
    assert!(matches!(Reader::open(&path, &options).unwrap().key_error(), Some(KeyError::NotAFile(_))));
}
