//! Verification of a log: the chain of hashes, the anchors and their seals.

use std::collections::BTreeMap;
use std::fmt;

use fumehood_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::Serialize;

use super::chain::{self, Key, LogId};
use super::chain::{Hash, Mark};
use super::checkpoint::{self, Checkpoint};
use super::reader::{ReadError, Reader};
use super::row::{self, CELL_COUNT, CELLS};
use super::store::{self, ANCHOR_INTERVAL_ROWS, reason};

/// Maximum distance at which the original place of a moved row is searched for, in rows.
const MAX_MOVE_ROWS: u64 = 64;

/// The result of verifying a log. The log is intact if there is no `finding`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The identity of the log.
    pub log: checkpoint::LogId,
    /// Number of rows that were checked.
    pub rows: u64,
    /// The last row that was pruned; 0 if none was.
    pub pruned_up_to: u64,
    /// The last row with a valid anchor. Up to here, any change without the key is detected.
    pub sealed_up_to: u64,
    /// The last row; 0 if the log has no records.
    pub last: u64,
    /// True if the seals of anchors were checked. Without the key, a log that was rewritten as a whole, with its
    /// hashes, cannot be distinguished from the original.
    pub seals_checked: bool,
    /// The comparison with the mark or checkpoint that was given; `None` if there was none, or if the verification
    /// ended before it was reached.
    pub continuity: Option<Continuity>,
    /// The first problem, if any.
    pub finding: Option<Finding>,
}

/// The comparison of a log with a mark or a [`Checkpoint`] that was kept elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Continuity {
    /// The log contains that row with that hash: nothing up to it was changed, added or reordered, and nothing is
    /// missing except the rows up to [`Report::pruned_up_to`].
    Proven,
    /// That row was pruned, so nothing could be compared. It is unknown whether the pruned rows were the original ones.
    Removed,
}

/// A problem of a log, and its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The number of the affected row.
    pub seq: u64,
    /// The problem.
    pub problem: Problem,
}

/// A problem with a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// The contents of the row do not match its hash.
    Edited,
    /// The row and the ones after it, up to and including `through`, are missing.
    Missing {
        /// The last missing row.
        through: u64,
    },
    /// The row was written as another row.
    Moved {
        /// The original number of the row.
        from: u64,
    },
    /// The row does not follow the row before it: it was moved or replaced together with its hashes, or a row before it
    /// was removed and the rest renumbered.
    Replaced,
    /// The row, or one before it back to the row after `after`, was rewritten together with the chain.
    Rewritten {
        /// The last row that is certainly original.
        after: u64,
    },
    /// A pruned row that was put back.
    BackAgain,
    /// The anchor of the row is missing.
    AnchorMissing,
    /// The anchor of the row was not sealed with the key of this log.
    AnchorForged,
    /// The row does not have the hash of the mark that was kept elsewhere.
    NotAsMarked,
    /// The checkpoint belongs to another log.
    OtherLog,
    /// The file is damaged, with SQLite's message.
    Structure(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seq = self.seq;
        match &self.problem {
            Problem::Edited => write!(f, "row {seq} was edited: it does not fit its hash"),
            Problem::Missing { through } if *through == seq => write!(f, "row {seq} was removed"),
            Problem::Missing { through } => write!(f, "rows {seq} to {through} were removed"),
            Problem::Moved { from } => write!(f, "row {seq} was moved: it was written as row {from}"),
            Problem::Replaced => {
                write!(f, "row {seq} does not follow the row before it: it was replaced or moved, or one was removed")
            }
            Problem::Rewritten { after } => {
                let first = after.saturating_add(1);
                write!(f, "rows {first} to {seq} were rewritten: they do not fit the anchor at row {seq}")
            }
            Problem::BackAgain => write!(f, "row {seq} was put back: it had been removed because it was old"),
            Problem::AnchorMissing => write!(f, "the anchor of row {seq} was removed"),
            Problem::AnchorForged => write!(f, "the anchor of row {seq} is forged, or the key is not that of this log"),
            Problem::NotAsMarked => write!(f, "row {seq} is not the one whose mark was kept"),
            Problem::OtherLog => {
                write!(
                    f,
                    "this is not the log of the checkpoint: another one was put in its place (row {seq} is not in it)"
                )
            }
            Problem::Structure(what) => write!(f, "the file is damaged: {what}"),
        }
    }
}

impl Reader {
    /// Verifies every row and every anchor in a consistent snapshot of the log, and that the chain contains `mark`, if
    /// one was kept elsewhere. Takes some seconds for a million rows.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn verify(&self, mark: Option<Mark>) -> Result<Report, ReadError> {
        self.verify_log(None, mark)
    }

    /// Like [`Self::verify`], and checks that this is the log of the checkpoint and still contains it.
    ///
    /// [`Report::continuity`] states the result. Nothing is proven if the row of the checkpoint was pruned.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn verify_since(&self, checkpoint: &Checkpoint) -> Result<Report, ReadError> {
        self.verify_log(Some(checkpoint.log), Some(checkpoint.mark))
    }

    fn verify_log(&self, log: Option<checkpoint::LogId>, mark: Option<Mark>) -> Result<Report, ReadError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let mut report = verify(&transaction, self.key(), mark)?;
        if log.is_some_and(|log| report.log != log) {
            let seq = mark.map_or(0, |mark| mark.seq);
            (report.finding, report.continuity) = (Some(Finding { seq, problem: Problem::OtherLog }), None);
        }
        drop(transaction);
        Ok(report)
    }

    /// Returns a checkpoint of the current state, to be kept elsewhere. It is taken without verification: verify the
    /// log first, since the checkpoint of a changed log confirms the change.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn checkpoint(&self, now: Timestamp) -> Result<Checkpoint, ReadError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let log = store::log_id(&transaction)?;
        let mark = store::head(&transaction, &log)?;
        Ok(Checkpoint { log: checkpoint::LogId(log), mark, at: now })
    }
}

/// An anchor with the result of checking its seal.
struct Anchor {
    hash: Hash,
    is_valid: bool,
}

/// The state of a verification.
struct Verifier<'a> {
    connection: &'a Connection,
    anchors: BTreeMap<u64, Vec<Anchor>>,
    mark: Option<Mark>,
    head: Mark,
    report: Report,
}

fn verify(connection: &Connection, key: Option<&Key>, mark: Option<Mark>) -> rusqlite::Result<Report> {
    let log = store::log_id(connection)?;
    let anchors = read_anchors(connection, key, &log)?;
    let cut = "SELECT seq, hash FROM anchors WHERE reason = ?1 ORDER BY seq DESC LIMIT 1";
    let cut = connection
        .query_row(cut, [reason::CUT], |row| Ok(Mark { seq: row::from_sql(row.get(0)?), hash: hash_column(row, 1)? }))
        .optional()?;
    let head = cut.unwrap_or_else(|| Mark { seq: 0, hash: chain::genesis_hash(&log) });
    let report = Report {
        log: checkpoint::LogId(log),
        rows: 0,
        pruned_up_to: head.seq,
        sealed_up_to: 0,
        last: head.seq,
        seals_checked: key.is_some(),
        continuity: mark.filter(|mark| mark.seq < head.seq).map(|_| Continuity::Removed),
        finding: None,
    };
    let mut verifier = Verifier { connection, anchors, mark, head, report };
    let problem = verifier.run()?;
    verifier.report.last = verifier.head.seq;
    verifier.report.finding = problem.map(|(seq, problem)| Finding { seq, problem });
    Ok(verifier.report)
}

type Violation = Option<(u64, Problem)>;

impl Verifier<'_> {
    fn run(&mut self) -> rusqlite::Result<Violation> {
        let beginning = if self.head.seq > 0 { self.check_anchors() } else { self.check_mark() };
        if beginning.is_some() {
            return Ok(beginning);
        }
        let all = format!("SELECT seq, hash, content, {CELLS} FROM records NOT INDEXED ORDER BY seq");
        let mut statement = self.connection.prepare(&all)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(wrong) = self.check_row(row)? {
                return Ok(Some(wrong));
            }
        }
        let last = self.head.seq;
        let known = self.anchors.keys().next_back().copied().max(self.mark.map(|mark| mark.seq)).unwrap_or(0);
        if known > last {
            return Ok(Some((last.saturating_add(1), Problem::Missing { through: known })));
        }
        let sound: String = self.connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        Ok((sound != "ok").then_some((last, Problem::Structure(sound))))
    }

    fn check_row(&mut self, row: &Row<'_>) -> rusqlite::Result<Violation> {
        let seq = row::from_sql(row.get(0)?);
        let expected = self.head.seq.saturating_add(1);
        if seq < expected {
            return Ok(Some((seq, Problem::BackAgain)));
        }
        if seq > expected {
            return Ok(Some((expected, Problem::Missing { through: seq.saturating_sub(1) })));
        }
        let (hash, content) = (hash_column(row, 1)?, hash_column(row, 2)?);
        let cells = (3..3 + CELL_COUNT).map(|index| row.get_ref(index)).collect::<rusqlite::Result<Vec<_>>>()?;
        if chain::content_hash(&cells) != content {
            return Ok(Some((seq, Problem::Edited)));
        }
        if chain::row_hash(self.head.hash, seq, content) != hash {
            return self.classify_misplaced(seq, hash, content).map(Some);
        }
        self.head = Mark { seq, hash };
        self.report.rows = self.report.rows.saturating_add(1);
        Ok(self.check_anchors())
    }

    /// Compares the current row with its anchors, and with the mark.
    fn check_anchors(&mut self) -> Violation {
        let Mark { seq, hash } = self.head;
        if let Some(wrong) = self.check_mark() {
            return Some(wrong);
        }
        let Some(anchors) = self.anchors.get(&seq) else {
            return seq.is_multiple_of(ANCHOR_INTERVAL_ROWS).then_some((seq, Problem::AnchorMissing));
        };
        if anchors.iter().any(|anchor| !anchor.is_valid) {
            return Some((seq, Problem::AnchorForged));
        }
        if anchors.iter().any(|anchor| anchor.hash != hash) {
            return Some((seq, Problem::Rewritten { after: self.report.sealed_up_to.max(self.report.pruned_up_to) }));
        }
        self.report.sealed_up_to = seq;
        None
    }

    /// Compares the current row with the mark, if it is the marked row.
    fn check_mark(&mut self) -> Violation {
        let mark = self.mark.filter(|mark| mark.seq == self.head.seq)?;
        if mark.hash != self.head.hash {
            return Some((mark.seq, Problem::NotAsMarked));
        }
        self.report.continuity = Some(Continuity::Proven);
        None
    }

    /// Finds the original place of a row whose contents match their hash, but whose link does not.
    fn classify_misplaced(&self, seq: u64, hash: Hash, content: Hash) -> rusqlite::Result<(u64, Problem)> {
        let (low, high) = (seq.saturating_sub(MAX_MOVE_ROWS), seq.saturating_add(MAX_MOVE_ROWS));
        let mut statement = self.connection.prepare("SELECT hash FROM records WHERE seq BETWEEN ?1 AND ?2")?;
        let mut rows = statement.query([row::to_sql(low), row::to_sql(high)])?;
        let mut before = vec![self.head.hash];
        while let Some(row) = rows.next()? {
            before.push(hash_column(row, 0)?);
        }
        let from = (low..=high)
            .find(|place| before.iter().any(|previous| chain::row_hash(*previous, *place, content) == hash));
        Ok((seq, from.filter(|from| *from != seq).map_or(Problem::Replaced, |from| Problem::Moved { from })))
    }
}

fn read_anchors(
    connection: &Connection,
    key: Option<&Key>,
    log: &LogId,
) -> rusqlite::Result<BTreeMap<u64, Vec<Anchor>>> {
    let mut statement = connection.prepare("SELECT seq, reason, hash, seal FROM anchors ORDER BY seq")?;
    let mut rows = statement.query([])?;
    let mut anchors: BTreeMap<u64, Vec<Anchor>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let seq = row::from_sql(row.get(0)?);
        let reason: String = row.get(1)?;
        let (hash, seal) = (hash_column(row, 2)?, hash_column(row, 3)?);
        let is_valid = key.is_none_or(|key| chain::is_valid_seal(key, log, seq, &reason, hash, seal));
        anchors.entry(seq).or_default().push(Anchor { hash, is_valid });
    }
    Ok(anchors)
}

/// Reads a hash from a column. One of the wrong length becomes a hash that matches nothing.
fn hash_column(row: &Row<'_>, index: usize) -> rusqlite::Result<Hash> {
    Ok(row.get_ref(index)?.as_blob().ok().and_then(Hash::from_bytes).unwrap_or(Hash([0; 32])))
}
