//! The rows and anchors of one chain in PostgreSQL, handed to the verification.

use tokio_postgres::{IsolationLevel, Portal, Row, Transaction};

use super::{batch, hash_column, mark_columns};
use crate::error::StorageError;
use crate::event_log::chain::{Cell, Hash, Key, LogId, Mark};
use crate::event_log::checkpoint;
use crate::event_log::row::{self, CELLS};
use crate::event_log::verify::{ChainRow, Problem, Report, Step, StoredAnchor, Verifier, Violation};
use crate::postgres::Connection;

/// Number of rows that are in memory at once.
const PAGE_ROWS: i32 = 1000;

/// Verifies a chain in one snapshot of the database.
pub(super) async fn verify(
    connection: &mut Connection,
    log: &LogId,
    key: Option<&Key>,
    marks: &[Mark],
) -> Result<Report, StorageError> {
    let isolation = IsolationLevel::RepeatableRead;
    let transaction = connection.client.build_transaction().isolation_level(isolation).read_only(true).start().await?;
    let find = "SELECT number, seq, hash FROM writers WHERE log = $1";
    let Some(found) = transaction.query_opt(find, &[&log.as_slice()]).await? else {
        // It was removed since the chains were listed.
        return Ok(Report::empty(checkpoint::LogId(*log)));
    };
    let number = found.try_get(0)?;
    let head = mark_columns(&found, 1, 2)?;
    let mut verifier = Verifier::new(log, key, read_anchors(&transaction, number).await?, marks);
    let mut violation = verifier.check_beginning();
    if violation.is_none() {
        violation = check_rows(&transaction, number, &mut verifier).await?;
    }
    if violation.is_none() {
        violation = verifier.check_end().or_else(|| check_head(&verifier, head));
    }
    transaction.commit().await?;
    Ok(verifier.into_report(violation))
}

async fn check_rows(
    transaction: &Transaction<'_>,
    writer: i64,
    verifier: &mut Verifier,
) -> Result<Violation, StorageError> {
    let sql =
        format!("SELECT seq, hash, content, {CELLS}, position, model_call FROM records WHERE writer = $1 ORDER BY seq");
    // A cursor, and no pages by number: a row that was put in twice must not be skipped between two pages.
    let portal: Portal = transaction.bind(&sql, &[&writer]).await?;
    let mut last_position = 0;
    loop {
        let rows = transaction.query_portal(&portal, PAGE_ROWS).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        for row in &rows {
            let read = OwnedRow::read(row)?;
            let wrong = check_row(transaction, writer, verifier, &read).await?;
            if wrong.is_some() {
                return Ok(wrong);
            }
            if read.position <= last_position {
                let problem = Problem::Structure(format!("the position of row {} was changed", read.seq));
                return Ok(Some((read.seq, problem)));
            }
            last_position = read.position;
        }
    }
}

async fn check_row(
    transaction: &Transaction<'_>,
    writer: i64,
    verifier: &mut Verifier,
    read: &OwnedRow,
) -> Result<Violation, StorageError> {
    let cells = read.cells();
    let row = ChainRow { seq: read.seq, hash: read.hash, content: read.content, cells: &cells };
    match verifier.check_row(&row) {
        Step::Follows if read.has_own_model_call() => Ok(None),
        Step::Follows => {
            Ok(Some((read.seq, Problem::Structure(format!("the column `model_call` of row {} was changed", read.seq)))))
        }
        Step::Wrong(seq, problem) => Ok(Some((seq, problem))),
        Step::Misplaced => {
            let (low, high) = Verifier::neighbourhood(read.seq);
            let low = row::to_sql(low);
            let high = row::to_sql(high);
            let sql = "SELECT hash FROM records WHERE writer = $1 AND seq BETWEEN $2 AND $3";
            let neighbours = transaction.query(sql, &[&writer, &low, &high]).await?;
            let hashes = neighbours.iter().map(|row| hash_column(row, 0)).collect::<Result<Vec<_>, _>>()?;
            Ok(Some(verifier.classify_misplaced(&row, &hashes)))
        }
    }
}

/// Compares the last row with the head that the next one would be linked to.
fn check_head(verifier: &Verifier, head: Mark) -> Violation {
    let last = verifier.head();
    if head.seq > last.seq {
        return Some((last.seq.saturating_add(1), Problem::Missing { through: head.seq }));
    }
    (head != last).then(|| (last.seq, Problem::Structure("the table `writers` has a different head".to_owned())))
}

async fn read_anchors(transaction: &Transaction<'_>, writer: i64) -> Result<Vec<StoredAnchor>, StorageError> {
    let sql = "SELECT seq, reason, hash, seal FROM anchors WHERE writer = $1 ORDER BY seq";
    transaction.query(sql, &[&writer]).await?.iter().map(to_anchor).collect()
}

/// Returns the anchors of a chain, to be copied.
pub(super) async fn anchors_of(connection: &mut Connection, log: &LogId) -> Result<Vec<StoredAnchor>, StorageError> {
    let sql = "SELECT seq, reason, hash, seal FROM anchors
               WHERE writer = (SELECT number FROM writers WHERE log = $1) ORDER BY seq";
    connection.query(sql, &[&log.as_slice()]).await?.iter().map(to_anchor).collect()
}

fn to_anchor(row: &Row) -> Result<StoredAnchor, StorageError> {
    let hash = hash_column(row, 2)?;
    let seal = hash_column(row, 3)?;
    Ok(StoredAnchor { seq: row::from_sql(row.try_get(0)?), reason: row.try_get(1)?, hash, seal })
}

/// The columns of a row.
struct OwnedRow {
    seq: u64,
    hash: Hash,
    content: Hash,
    /// Texts before the time, the time, and texts after it, in the order of [`CELLS`].
    before: [Option<String>; 3],
    at: i64,
    after: [Option<String>; 7],
    position: i64,
    model_call: Option<String>,
}

impl OwnedRow {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let text = |index: usize| row.try_get::<_, Option<String>>(index);
        Ok(Self {
            seq: row::from_sql(row.try_get(0)?),
            hash: hash_column(row, 1)?,
            content: hash_column(row, 2)?,
            before: [text(3)?, text(4)?, text(5)?],
            at: row.try_get(6)?,
            after: [text(7)?, text(8)?, text(9)?, text(10)?, text(11)?, text(12)?, text(13)?],
            position: row.try_get(14)?,
            model_call: text(15)?,
        })
    }

    fn cells(&self) -> Vec<Cell<'_>> {
        fn text(text: &Option<String>) -> Cell<'_> {
            text.as_deref().map_or(Cell::Null, |text| Cell::Text(text.as_bytes()))
        }
        let before = self.before.iter().map(text);
        before.chain([Cell::Integer(self.at)]).chain(self.after.iter().map(text)).collect()
    }

    /// Returns whether the id that the row is found by is that of its body, which the hash covers.
    fn has_own_model_call(&self) -> bool {
        let [.., body] = &self.after;
        let body = body.as_deref().and_then(|body| serde_json::from_str(body).ok());
        body.is_none_or(|body| batch::model_call(&body) == self.model_call.as_deref())
    }
}
