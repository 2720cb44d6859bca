//! Partitions by month, and retention.

use std::time::{SystemTime, UNIX_EPOCH};

use fumehood_core::record::Record;
use fumehood_core::time::Timestamp;
use fumehood_storage::event_log::{EventLog, PruneReport, Retention};
use futures_executor::block_on;

use crate::harness::{TestDatabase, writer};
use crate::suite::{Database as _, record, write};

const DAY_MS: u64 = 86_400_000;
/// The first of September 2024.
const SEPTEMBER: u64 = 1_725_148_800_000;

fn at(number: u64, at: u64) -> Record {
    Record { at: Timestamp(at), ..record(number) }
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn partitions(database: &TestDatabase) -> Vec<String> {
    let sql = "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
               WHERE i.inhparent = 'fumehood.records'::regclass AND c.relname < 'records_2026' ORDER BY 1";
    database.sql(sql).lines().map(str::to_owned).collect()
}

#[test]
fn records_are_in_the_partition_of_their_month() {
    let Some(database) = TestDatabase::new() else { return };
    let log = database.open();
    for (number, moment) in [(1, 1), (2, SEPTEMBER - 1), (3, SEPTEMBER), (4, SEPTEMBER + 29 * DAY_MS), (5, now())] {
        write(&log, at(number, moment)).unwrap();
    }
    assert_eq!(partitions(&database), ["records_2024_08", "records_2024_09"]);
    let places = database.sql("SELECT seq, tableoid::regclass FROM records WHERE seq < 5 ORDER BY seq");
    assert_eq!(places, "1|records_other\n2|records_2024_08\n3|records_2024_09\n4|records_2024_09");
    // The next month has its partition before it begins.
    let ahead = "SELECT count(*) FROM pg_class WHERE relname = 'records_' ||
        to_char((now() AT TIME ZONE 'UTC') + interval '1 month', 'YYYY_MM')";
    assert_eq!(database.sql(ahead), "1");
    assert_eq!(database.reader().verify(None).unwrap().finding, None);
}

#[test]
fn retention_drops_partitions_of_this_writer_alone() {
    let Some(database) = TestDatabase::new() else { return };
    let one = database.open();
    let two = EventLog::open_postgres(&database.address(), &writer(2)).unwrap();
    for number in 0..10 {
        write(&one, at(number, SEPTEMBER - 40 * DAY_MS + number * 10 * DAY_MS)).unwrap();
    }
    write(&two, at(100, SEPTEMBER)).unwrap();
    write(&two, at(101, now())).unwrap();
    let before = partitions(&database);
    assert_eq!(before, ["records_2024_07", "records_2024_08", "records_2024_09", "records_2024_10"]);
    // July and August as a whole, and two rows of September, of which another writer has one.
    let since = Retention::Since(Timestamp(SEPTEMBER + 15 * DAY_MS));
    assert_eq!(block_on(one.retain(since)), Ok(PruneReport { removed: 6, up_to: 6 }));
    assert_eq!(partitions(&database), ["records_2024_09", "records_2024_10"]);
    let reports = database.reader().verify_all(&[]).unwrap();
    assert!(reports.iter().all(|report| report.finding.is_none()), "{reports:?}");
    assert_eq!((reports[0].pruned_up_to, reports[0].rows, reports[1].rows), (6, 4, 2));
    block_on(two.retain(Retention::Newest(1))).unwrap();
    block_on(one.retain(Retention::Newest(0))).unwrap();
    assert_eq!(partitions(&database), [] as [&str; 0]);
    write(&one, at(11, SEPTEMBER)).unwrap();
    assert_eq!(partitions(&database), ["records_2024_09"], "made again");
    let reports = database.reader().verify_all(&[]).unwrap();
    assert!(reports.iter().all(|report| report.finding.is_none()), "{reports:?}");
}

/// Times are those of records, and need not rise with their numbers.
#[test]
fn clock_that_went_back_leaves_no_gap() {
    let Some(database) = TestDatabase::new() else { return };
    let log = database.open();
    for (number, moment) in [(1, SEPTEMBER), (2, SEPTEMBER - DAY_MS), (3, now()), (4, SEPTEMBER), (5, now())] {
        write(&log, at(number, moment)).unwrap();
    }
    let since = Retention::Since(Timestamp(SEPTEMBER + DAY_MS));
    assert_eq!(block_on(log.retain(since)), Ok(PruneReport { removed: 2, up_to: 2 }));
    let report = database.reader().verify(None).unwrap();
    assert_eq!((report.rows, report.finding), (3, None), "row 4 stays, since row 3 does");
}
