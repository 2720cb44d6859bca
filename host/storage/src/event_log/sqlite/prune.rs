//! Removal of old rows from SQLite.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::store;
use crate::event_log::anchor::{Sealer, reason};
use crate::event_log::chain::{Hash, Mark};
use crate::event_log::retention::{PruneReport, Retention};
use crate::event_log::row;

/// Maximum number of rows that one transaction removes, so that it does not delay new records for long.
const MAX_BATCH_ROWS: i64 = 4096;

/// Removes the rows that need not be kept, and seals the row where the rest begins.
pub(crate) fn prune(connection: &mut Connection, sealer: &Sealer, keep: Retention) -> rusqlite::Result<PruneReport> {
    let mut pruned = PruneReport::default();
    let last = last_removable(connection, sealer, keep)?;
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let Some(cut) = next_cut(&transaction, last)? else {
            break;
        };
        store::insert_anchor(&transaction, sealer, cut, reason::CUT)?;
        let seq = row::to_sql(cut.seq);
        let removed = transaction.execute("DELETE FROM records WHERE seq <= ?1", [seq])?;
        transaction.execute("DELETE FROM anchors WHERE seq < ?1 OR (seq = ?1 AND reason <> 'cut')", [seq])?;
        transaction.commit()?;
        pruned.removed = pruned.removed.saturating_add(removed as u64);
    }
    if pruned.removed > 0 {
        // Each step frees one page.
        let mut vacuum = connection.prepare("PRAGMA incremental_vacuum")?;
        let mut steps = vacuum.query([])?;
        while steps.next()?.is_some() {}
    }
    let cut = "SELECT coalesce(max(seq), 0) FROM anchors WHERE reason = 'cut'";
    pruned.up_to = row::from_sql(connection.query_row(cut, [], |row| row.get(0))?);
    Ok(pruned)
}

fn last_removable(connection: &Connection, sealer: &Sealer, keep: Retention) -> rusqlite::Result<i64> {
    let head = row::to_sql(store::head(connection, &sealer.log)?.seq);
    match keep {
        Retention::Newest(rows) => Ok(head.saturating_sub(row::to_sql(rows))),
        Retention::Since(moment) => {
            let first = "SELECT seq FROM records WHERE at >= ?1 ORDER BY seq LIMIT 1";
            let first: Option<i64> =
                connection.query_row(first, [row::to_sql(moment.0)], |row| row.get(0)).optional()?;
            Ok(first.map_or(head, |first| first.saturating_sub(1)))
        }
    }
}

/// Returns the last row of the next batch to remove.
fn next_cut(transaction: &Transaction<'_>, last: i64) -> rusqlite::Result<Option<Mark>> {
    let portion = "SELECT seq, hash FROM (SELECT seq, hash FROM records WHERE seq <= ?1 ORDER BY seq LIMIT ?2)
                   ORDER BY seq DESC LIMIT 1";
    transaction
        .query_row(portion, [last, MAX_BATCH_ROWS], |row| {
            Ok(Mark { seq: row::from_sql(row.get(0)?), hash: Hash(row.get(1)?) })
        })
        .optional()
}
