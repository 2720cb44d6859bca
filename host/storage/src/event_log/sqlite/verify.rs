//! The rows and anchors of a log in SQLite, handed to the verification.

use rusqlite::{Connection, Row};

use super::{columns, store};
use crate::event_log::chain::{Hash, Key, Mark};
use crate::event_log::row::{self, CELL_COUNT, CELLS};
use crate::event_log::verify::{ChainRow, Problem, Report, Step, StoredAnchor, Verifier, Violation};

/// Verifies the chain, and the structure of the file.
pub(super) fn verify(connection: &Connection, key: Option<&Key>, marks: &[Mark]) -> rusqlite::Result<Report> {
    let log = store::log_id(connection)?;
    let mut verifier = Verifier::new(&log, key, read_anchors(connection)?, marks);
    let violation = check(connection, &mut verifier)?;
    Ok(verifier.into_report(violation))
}

fn check(connection: &Connection, verifier: &mut Verifier) -> rusqlite::Result<Violation> {
    let beginning = verifier.check_beginning();
    if beginning.is_some() {
        return Ok(beginning);
    }
    let all = format!("SELECT seq, hash, content, {CELLS} FROM records NOT INDEXED ORDER BY seq");
    let mut statement = connection.prepare(&all)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let wrong = check_row(connection, verifier, row)?;
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    let end = verifier.check_end();
    if end.is_some() {
        return Ok(end);
    }
    let sound: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok((sound != "ok").then_some((verifier.head().seq, Problem::Structure(sound))))
}

fn check_row(connection: &Connection, verifier: &mut Verifier, row: &Row<'_>) -> rusqlite::Result<Violation> {
    let cells = (3..3 + CELL_COUNT).map(|index| row.get_ref(index).map(columns::to_cell));
    let cells = cells.collect::<rusqlite::Result<Vec<_>>>()?;
    let hash = columns::hash(row, 1)?;
    let content = columns::hash(row, 2)?;
    let row = ChainRow { seq: row::from_sql(row.get(0)?), hash, content, cells: &cells };
    match verifier.check_row(&row) {
        Step::Follows => Ok(None),
        Step::Wrong(seq, problem) => Ok(Some((seq, problem))),
        Step::Misplaced => Ok(Some(verifier.classify_misplaced(&row, &neighbours(connection, row.seq)?))),
    }
}

/// Returns the hashes of the rows around a misplaced one.
fn neighbours(connection: &Connection, seq: u64) -> rusqlite::Result<Vec<Hash>> {
    let (low, high) = Verifier::neighbourhood(seq);
    let mut statement = connection.prepare("SELECT hash FROM records WHERE seq BETWEEN ?1 AND ?2")?;
    statement.query_map([row::to_sql(low), row::to_sql(high)], |row| columns::hash(row, 0))?.collect()
}

pub(super) fn read_anchors(connection: &Connection) -> rusqlite::Result<Vec<StoredAnchor>> {
    let mut statement = connection.prepare("SELECT seq, reason, hash, seal FROM anchors ORDER BY seq")?;
    let anchor = |row: &Row<'_>| {
        let hash = columns::hash(row, 2)?;
        let seal = columns::hash(row, 3)?;
        Ok(StoredAnchor { seq: row::from_sql(row.get(0)?), reason: row.get(1)?, hash, seal })
    };
    statement.query_map([], anchor)?.collect()
}
