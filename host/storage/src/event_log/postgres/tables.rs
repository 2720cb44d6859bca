//! The tables of a log in PostgreSQL, and its partitions: one for each month.

use fumehood_core::time::Timestamp;

use crate::error::StorageError;
use crate::postgres::{Connection, Schema};

/// The tables. A released migration must never change.
///
/// `log_state` has one row, which every transaction that appends locks: so positions are visible in their order, and whoever
/// follows the log misses none. `writers` has the head of each chain.
pub(super) const TABLES: Schema = Schema {
    name: "event log",
    migrations: &[
        "
        CREATE TABLE log_state (
            only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
            position bigint NOT NULL
        );
        INSERT INTO log_state (position) VALUES (0);
        CREATE TABLE writers (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            log bytea NOT NULL UNIQUE CHECK (octet_length(log) = 16),
            key_id bytea CHECK (octet_length(key_id) = 16),
            is_imported boolean NOT NULL,
            seq bigint NOT NULL,
            hash bytea NOT NULL,
            began_at timestamptz NOT NULL DEFAULT now()
        );
        CREATE TABLE records (
            position bigint NOT NULL,
            writer bigint NOT NULL,
            seq bigint NOT NULL,
            id text NOT NULL,
            parent text,
            session text NOT NULL,
            at bigint NOT NULL,
            kind text NOT NULL,
            actor text,
            tool text,
            digest text,
            call text,
            status text,
            body text NOT NULL,
            model_call text,
            content bytea NOT NULL,
            hash bytea NOT NULL
        ) PARTITION BY RANGE (at);
        CREATE TABLE records_other PARTITION OF records DEFAULT;
        CREATE INDEX records_by_position ON records (position);
        CREATE INDEX records_by_writer ON records (writer, seq);
        CREATE INDEX records_by_time ON records (at);
        CREATE INDEX records_by_kind ON records (kind, position);
        -- Hashes, because texts may be too long for an ordered index.
        CREATE INDEX records_by_id ON records USING hash (id);
        CREATE INDEX records_by_session ON records USING hash (session);
        CREATE INDEX records_by_parent ON records USING hash (parent) WHERE parent IS NOT NULL;
        CREATE INDEX records_by_tool ON records USING hash (tool) WHERE tool IS NOT NULL;
        CREATE INDEX records_by_call ON records USING hash (call) WHERE call IS NOT NULL;
        CREATE INDEX records_by_model_call ON records USING hash (model_call) WHERE model_call IS NOT NULL;
        CREATE TABLE anchors (
            writer bigint NOT NULL,
            seq bigint NOT NULL,
            reason text NOT NULL,
            hash bytea NOT NULL,
            seal bytea NOT NULL,
            PRIMARY KEY (writer, seq, reason)
        );
        CREATE TABLE session_entries (
            session text COLLATE \"C\" NOT NULL,
            number bigint NOT NULL,
            at bigint NOT NULL,
            content text NOT NULL,
            PRIMARY KEY (session, number)
        );
    ",
        // For prefixes of ids. The beginnings alone, because texts may be too long for an ordered index.
        "CREATE INDEX records_by_call_order ON records ((left(call, 64) COLLATE \"C\")) WHERE call IS NOT NULL;",
    ],
};

/// A month of the calendar, which has a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Month {
    year: u16,
    /// From 1 to 12.
    month: u8,
}

/// Years that have partitions. Records of other times, which come from a clock that is wrong, are in the default partition.
const YEARS: std::ops::RangeInclusive<u16> = 2020..=2099;

impl Month {
    /// Returns the month of a moment, if it has a partition.
    pub(super) fn of(at: i64) -> Option<Self> {
        let days = at.div_euclid(86_400_000);
        // The calendar from days: a year that begins with March has its leap day at the end.
        let shifted = days.checked_add(719_468)?;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let year = u16::try_from(year).ok()?;
        let month = u8::try_from(month).ok()?;
        YEARS.contains(&year).then_some(Self { year, month })
    }

    /// Returns the month after this one.
    pub(super) fn next(self) -> Self {
        match self.month {
            12 => Self { year: self.year.saturating_add(1), month: 1 },
            month => Self { month: month.saturating_add(1), ..self },
        }
    }

    /// Returns the first millisecond of the month since 1970.
    fn first_ms(self) -> i64 {
        let year = i64::from(self.year);
        let month = i64::from(self.month);
        let shifted_year = if month <= 2 { year - 1 } else { year };
        let era = shifted_year.div_euclid(400);
        let year_of_era = shifted_year.rem_euclid(400);
        let shifted_month = if month > 2 { month - 3 } else { month + 9 };
        let day_of_year = (153 * shifted_month + 2) / 5;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        (era * 146_097 + day_of_era - 719_468) * 86_400_000
    }

    /// Returns the name of its partition.
    pub(super) fn table(self) -> String {
        format!("records_{:04}_{:02}", self.year, self.month)
    }

    /// Returns the month of a partition.
    pub(super) fn of_table(name: &str) -> Option<Self> {
        let (year, month) = name.strip_prefix("records_")?.split_once('_')?;
        Some(Self { year: year.parse().ok()?, month: month.parse().ok()? })
    }
}

/// Makes the partition of a month, unless it is there. It must not be made in a transaction with others.
///
/// Records of a month whose partition cannot be made are in the default one: that is so if somebody dropped it while gateways
/// wrote, or reads the whole log just now. No record is refused for that.
pub(super) async fn make_partition(connection: &mut Connection, month: Month) -> Result<(), StorageError> {
    let table = month.table();
    let first = month.first_ms();
    let next = month.next().first_ms();
    let exists = "SELECT to_regclass('fumehood.' || $1) IS NOT NULL";
    if connection.query_one(exists, &[&table]).await?.try_get::<_, bool>(0)? {
        return Ok(());
    }
    let make = format!("CREATE TABLE IF NOT EXISTS {table} PARTITION OF records FOR VALUES FROM ({first}) TO ({next})");
    match connection.run(&make).await {
        // Records of the month are in the default partition (check_violation), somebody holds it (lock_not_available), or
        // another gateway was faster (duplicate_table, and its type or index).
        Err(error)
            if error
                .code()
                .is_some_and(|code| ["23514", "55P03", "42P07", "23505", "42710"].contains(&code.code())) =>
        {
            Ok(())
        }
        done => Ok(done?),
    }
}

/// Returns the current month, and the one after it.
pub(super) fn months_ahead(now: Timestamp) -> impl Iterator<Item = Month> {
    let this = Month::of(i64::try_from(now.0).unwrap_or(i64::MAX));
    this.into_iter().flat_map(|month| [month, month.next()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_follow_the_calendar() {
        check_month(1_577_836_800_000 - 1, None);
        check_month(1_577_836_800_000, Some("records_2020_01"));
        check_month(1_582_934_400_000, Some("records_2020_02"));
        check_month(1_582_934_400_000 + 86_400_000, Some("records_2020_03"));
        check_month(1_795_478_400_000, Some("records_2026_11"));
        check_month(4_102_444_800_000 - 1, Some("records_2099_12"));
        check_month(4_102_444_800_000, None);
        check_month(1_000, None);
        check_month(i64::MAX, None);
        check_month(i64::MIN, None);
    }

    fn check_month(at: i64, expected: Option<&str>) {
        assert_eq!(Month::of(at).map(Month::table).as_deref(), expected, "{at}");
    }

    #[test]
    fn months_leave_no_gap() {
        let mut month = Month { year: 2020, month: 1 };
        assert_eq!(month.first_ms(), 1_577_836_800_000);
        while month.year < 2100 {
            let first = month.first_ms();
            let next = month.next().first_ms();
            assert_eq!((Month::of(first), Month::of(next - 1)), (Some(month), Some(month)));
            assert!((28..=31).contains(&((next - first) / 86_400_000)), "{month:?}");
            assert_eq!(Month::of_table(&month.table()), Some(month));
            month = month.next();
        }
        assert_eq!(Month::of_table("records_other"), None);
    }
}
