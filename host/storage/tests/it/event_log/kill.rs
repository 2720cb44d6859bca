//! A log whose process is killed at any moment contains every acknowledged record, and verifies.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::temporary_path;
use crate::suite::{record, write};
use fumehood_storage::event_log::{EventLog, Filter, Options};

const PLACE: &str = "FUMEHOOD_TEST_KILLED_LOG";
const WRITERS: u64 = 4;

/// Writes until the process is killed, if it was started by the test below.
#[test]
fn write_until_killed() {
    let Some(path) = std::env::var_os(PLACE) else {
        return;
    };
    let log = EventLog::open(path, &Options::default()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let log = &log;
            scope.spawn(move || {
                // The ids of all these processes must differ.
                let first = u64::from(std::process::id()) * 1_000_000;
                for number in first.. {
                    let record = record(number * WRITERS + writer);
                    let line = format!("\n{} kept\n", record.id);
                    write(log, record).unwrap();
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

#[test]
fn no_acknowledged_record_is_lost_to_a_kill() {
    let (_folder, path) = temporary_path();
    let mut acknowledged = BTreeSet::new();
    for round in 0..8_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "event_log::kill::write_until_killed", "--nocapture"])
            .env(PLACE, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            text
        });
        std::thread::sleep(Duration::from_millis(40 + round * 37));
        child.kill().unwrap();
        child.wait().unwrap();
        let text = reading.join().unwrap();
        acknowledged.extend(text.lines().filter_map(|line| Some(line.strip_suffix(" kept")?.to_owned())));

        let log = EventLog::open(&path, &Options::default()).unwrap();
        let all = Filter { limit: Some(usize::MAX), ..Filter::default() };
        let kept: BTreeSet<_> = log.reader().query(&all).unwrap().into_iter().map(|row| row.record.id).collect();
        let lost: Vec<_> = acknowledged.difference(&kept).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?} of {}", acknowledged.len());
        assert_eq!(log.reader().verify(None).unwrap().finding, None, "round {round}");
    }
    assert!(acknowledged.len() > 20, "only {} were acknowledged", acknowledged.len());
}
