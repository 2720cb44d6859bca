//! Removal of old rows: whole partitions where that is possible, and the rest a few at a time.

use super::tables::Month;
use super::{Writer, append, insert_anchor, mark_columns};
use crate::error::StorageError;
use crate::event_log::anchor::reason;
use crate::event_log::chain::Mark;
use crate::event_log::retention::{PruneReport, Retention};
use crate::event_log::row;
use crate::postgres::Connection;

/// Maximum number of rows that one transaction removes, so that it does not delay new records for long.
const MAX_BATCH_ROWS: i64 = 4096;

/// Removes the rows of a writer that need not be kept, and the partitions of earlier months that have no others. Each
/// transaction seals the row where the rest begins.
pub(super) async fn prune(
    connection: &mut Connection,
    writer: &Writer,
    keep: Retention,
    this_month: Option<Month>,
) -> Result<PruneReport, StorageError> {
    let mut pruned = PruneReport::default();
    let last = last_removable(connection, writer, keep).await?;
    for month in earlier_months(connection, this_month).await? {
        let removed = drop_partition(connection, writer, month, last).await?;
        pruned.removed = pruned.removed.saturating_add(removed);
    }
    loop {
        let removed = remove_some(connection, writer, last).await?;
        if removed == 0 {
            break;
        }
        pruned.removed = pruned.removed.saturating_add(removed);
    }
    let cut = "SELECT coalesce(max(seq), 0) FROM anchors WHERE writer = $1 AND reason = 'cut'";
    pruned.up_to = row::from_sql(connection.query_one(cut, &[&writer.number]).await?.try_get(0)?);
    Ok(pruned)
}

async fn last_removable(connection: &mut Connection, writer: &Writer, keep: Retention) -> Result<i64, StorageError> {
    let head = "SELECT seq FROM writers WHERE number = $1";
    let head: i64 = connection.query_one(head, &[&writer.number]).await?.try_get(0)?;
    match keep {
        Retention::Newest(rows) => Ok(head.saturating_sub(row::to_sql(rows))),
        Retention::Since(moment) => {
            let first = "SELECT min(seq) FROM records WHERE writer = $1 AND at >= $2";
            let moment = row::to_sql(moment.0);
            let first: Option<i64> = connection.query_one(first, &[&writer.number, &moment]).await?.try_get(0)?;
            Ok(first.map_or(head, |first| first.saturating_sub(1)))
        }
    }
}

/// Returns the months before this one that have partitions, the oldest first.
async fn earlier_months(connection: &mut Connection, this_month: Option<Month>) -> Result<Vec<Month>, StorageError> {
    let partitions = "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                      WHERE i.inhparent = 'fumehood.records'::regclass";
    let mut months = Vec::new();
    for found in connection.query(partitions, &[]).await? {
        months.extend(Month::of_table(found.try_get(0)?));
    }
    months.retain(|month| this_month.is_some_and(|this_month| *month < this_month));
    months.sort_unstable();
    Ok(months)
}

/// Drops the partition of a month, if every row in it is one of this writer that need not be kept. Returns the number of
/// rows that were removed.
async fn drop_partition(
    connection: &mut Connection,
    writer: &Writer,
    month: Month,
    last: i64,
) -> Result<u64, StorageError> {
    let table = month.table();
    connection.begin().await?;
    connection.query_one(append::LOCK, &[&writer.number]).await?;
    let kept = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE writer <> $1 OR seq > $2)");
    if connection.query_one(&kept, &[&writer.number, &last]).await?.try_get::<_, bool>(0)? {
        connection.run("ROLLBACK").await?;
        return Ok(0);
    }
    let newest = format!("SELECT seq, hash FROM {table} ORDER BY seq DESC LIMIT 1");
    let cut = match connection.query_opt(&newest, &[]).await? {
        Some(found) => Some(mark_columns(&found, 0, 1)?),
        None => None,
    };
    let count: i64 = connection.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await?.try_get(0)?;
    connection.run(&format!("DROP TABLE {table}")).await?;
    let mut removed = row::from_sql(count);
    if let Some(cut) = cut {
        // Rows before it may be in other partitions: times are those of records, and need not rise with their numbers.
        removed = removed.saturating_add(remove_up_to(connection, writer, cut).await?);
    }
    connection.run("COMMIT").await?;
    Ok(removed)
}

/// Removes the oldest rows, up to [`MAX_BATCH_ROWS`] of them. Returns their number.
async fn remove_some(connection: &mut Connection, writer: &Writer, last: i64) -> Result<u64, StorageError> {
    connection.begin().await?;
    connection.query_one(append::LOCK, &[&writer.number]).await?;
    let portion = "SELECT seq, hash FROM (
            SELECT seq, hash FROM records WHERE writer = $1 AND seq <= $2 ORDER BY seq LIMIT $3
        ) oldest ORDER BY seq DESC LIMIT 1";
    let found = connection.query_opt(portion, &[&writer.number, &last, &MAX_BATCH_ROWS]).await?;
    let Some(cut) = found else {
        connection.run("ROLLBACK").await?;
        return Ok(0);
    };
    let cut = mark_columns(&cut, 0, 1)?;
    let removed = remove_up_to(connection, writer, cut).await?;
    connection.run("COMMIT").await?;
    Ok(removed)
}

/// Seals a row, and removes it and all rows and anchors before it.
async fn remove_up_to(connection: &mut Connection, writer: &Writer, cut: Mark) -> Result<u64, StorageError> {
    insert_anchor(connection, writer, cut, reason::CUT).await?;
    let seq = row::to_sql(cut.seq);
    let rows = "DELETE FROM records WHERE writer = $1 AND seq <= $2";
    let removed = connection.execute(rows, &[&writer.number, &seq]).await?;
    let anchors = "DELETE FROM anchors WHERE writer = $1 AND (seq < $2 OR (seq = $2 AND reason <> 'cut'))";
    connection.execute(anchors, &[&writer.number, &seq]).await?;
    Ok(removed)
}
