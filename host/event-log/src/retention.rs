//! Removing old rows so that the rest can still be verified.

use fumehood_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::hash::{Hash, Mark};
use crate::row;
use crate::store::{self, Sealer, reason};

/// How many rows one transaction removes, so that records do not wait long behind it.
const AT_ONCE: i64 = 4096;

/// What is kept. Rows go from the oldest on, without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// This many of the newest.
    Newest(u64),
    /// All from the first that was made at this moment or later.
    Since(Timestamp),
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many rows went.
    pub removed: u64,
    /// The number of the last row that is gone, now or earlier; 0 if none ever went.
    pub up_to: u64,
}

/// Removes what need not be kept, and seals where the rest begins.
pub(crate) fn prune(connection: &mut Connection, sealer: &Sealer, keep: Keep) -> rusqlite::Result<Pruned> {
    let mut pruned = Pruned::default();
    let last = last_to_go(connection, sealer, keep)?;
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let Some(cut) = next_cut(&transaction, last)? else {
            break;
        };
        store::anchor(&transaction, sealer, cut, reason::CUT)?;
        let seq = row::integer(cut.seq);
        let removed = transaction.execute("DELETE FROM records WHERE seq <= ?1", [seq])?;
        transaction.execute("DELETE FROM anchors WHERE seq < ?1 OR (seq = ?1 AND reason <> 'cut')", [seq])?;
        transaction.commit()?;
        pruned.removed = pruned.removed.saturating_add(removed as u64);
    }
    if pruned.removed > 0 {
        // Every step gives back one page.
        let mut vacuum = connection.prepare("PRAGMA incremental_vacuum")?;
        let mut steps = vacuum.query([])?;
        while steps.next()?.is_some() {}
    }
    let cut = "SELECT coalesce(max(seq), 0) FROM anchors WHERE reason = 'cut'";
    pruned.up_to = row::number(connection.query_row(cut, [], |row| row.get(0))?);
    Ok(pruned)
}

fn last_to_go(connection: &Connection, sealer: &Sealer, keep: Keep) -> rusqlite::Result<i64> {
    let head = row::integer(store::head(connection, &sealer.log)?.seq);
    match keep {
        Keep::Newest(rows) => Ok(head.saturating_sub(row::integer(rows))),
        Keep::Since(moment) => {
            let first = "SELECT seq FROM records WHERE at >= ?1 ORDER BY seq LIMIT 1";
            let first: Option<i64> =
                connection.query_row(first, [row::integer(moment.0)], |row| row.get(0)).optional()?;
            Ok(first.map_or(head, |first| first.saturating_sub(1)))
        }
    }
}

/// The last row of the next portion.
fn next_cut(transaction: &Transaction<'_>, last: i64) -> rusqlite::Result<Option<Mark>> {
    let portion = "SELECT seq, hash FROM (SELECT seq, hash FROM records WHERE seq <= ?1 ORDER BY seq LIMIT ?2)
                   ORDER BY seq DESC LIMIT 1";
    transaction
        .query_row(portion, [last, AT_ONCE], |row| Ok(Mark { seq: row::number(row.get(0)?), hash: Hash(row.get(1)?) }))
        .optional()
}
