//! Is the log what was written? The first thing that is not, and where.

use std::collections::BTreeMap;
use std::fmt;

use fumehood_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::Serialize;

use crate::chain::{self, Key, LogId};
use crate::checkpoint::{self, Checkpoint};
use crate::hash::{Hash, Mark};
use crate::reader::{ReadError, Reader};
use crate::row::{self, CELL_COUNT, CELLS};
use crate::store::{self, ANCHOR_EVERY, reason};

/// How far from its place a moved row is looked for.
const NEARBY: u64 = 64;

/// What a check found. It is in order if there is no `finding`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The identity of the log.
    pub log: checkpoint::LogId,
    /// How many rows were checked.
    pub rows: u64,
    /// The last row that was removed because it was old; 0 if none was.
    pub pruned_up_to: u64,
    /// The last row that a good anchor covers: up to here, nobody without the key can have changed anything unseen.
    pub sealed_up_to: u64,
    /// The last row that there is; 0 if the log has no records.
    pub last: u64,
    /// Whether there was a key to check the seals of anchors with. Without it, a log that was rewritten as a whole, with
    /// its hashes, looks like a true one.
    pub seals_checked: bool,
    /// How the log compares with the place in it that was kept elsewhere; `None` if none was given, or if the check
    /// ended before it got there.
    pub continuity: Option<Continuity>,
    /// The first thing that is wrong.
    pub finding: Option<Finding>,
}

/// How a log compares with a mark or a [`Checkpoint`] of it that was kept elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Continuity {
    /// The log goes through that row, with that hash: nothing up to it was changed, added or reordered, and nothing is
    /// missing but the rows up to [`Report::pruned_up_to`].
    Proven,
    /// That row itself was removed because it was old, so nothing could be compared. Whether the removed rows were the
    /// true ones is unknown.
    Removed,
}

/// Something that is wrong with the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The number of the row that it is about.
    pub seq: u64,
    /// The problem that was found.
    pub problem: Problem,
}

/// What can be wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// It does not say what it said when it was written.
    Edited,
    /// It and the rows up to this one are gone.
    Missing {
        /// The last one that is gone.
        through: u64,
    },
    /// It was written as another row.
    Moved {
        /// Which.
        from: u64,
    },
    /// It was not written in this place: it was moved, or replaced together with its hashes, or the row before it is
    /// gone and the numbers were closed up.
    Replaced,
    /// It, or one before it as far as the row after this number, was written anew together with the chain.
    Rewritten {
        /// The last row that is certainly the old one.
        after: u64,
    },
    /// It was removed because it was old, and is there again.
    BackAgain,
    /// Its anchor is gone.
    AnchorMissing,
    /// Its anchor was not sealed with the key of this log.
    AnchorForged,
    /// It is not the row whose mark was kept elsewhere.
    NotAsMarked,
    /// The checkpoint is that of another log.
    OtherLog,
    /// The file itself is not in order, in SQLite's words.
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
    /// Checks every row and every anchor, in one view of the log that writers do not disturb, and that the chain
    /// goes through `mark`, if one was kept elsewhere. Takes some seconds for a million rows.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn verify(&self, mark: Option<Mark>) -> Result<Report, ReadError> {
        self.verified(None, mark)
    }

    /// Like [`Self::verify`], and checks that this is the log of the checkpoint, and that it still leads to it.
    ///
    /// [`Report::continuity`] says whether that is proven. It is not where the row of the checkpoint was removed
    /// because it was old.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn verify_since(&self, checkpoint: &Checkpoint) -> Result<Report, ReadError> {
        self.verified(Some(checkpoint.log), Some(checkpoint.mark))
    }

    fn verified(&self, log: Option<checkpoint::LogId>, mark: Option<Mark>) -> Result<Report, ReadError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let mut report = check(&transaction, self.key(), mark)?;
        if log.is_some_and(|log| report.log != log) {
            let seq = mark.map_or(0, |mark| mark.seq);
            (report.finding, report.continuity) = (Some(Finding { seq, problem: Problem::OtherLog }), None);
        }
        drop(transaction);
        Ok(report)
    }

    /// The present state of the log, to be kept elsewhere. It is taken from the database as it is: verify the log
    /// first, since the checkpoint of a changed log vouches for the change.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn checkpoint(&self, now: Timestamp) -> Result<Checkpoint, ReadError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let log = store::log_id(&transaction)?;
        let mark = store::head(&transaction, &log)?;
        Ok(Checkpoint { log: checkpoint::LogId(log), mark, at: now })
    }
}

/// An anchor, and whether its seal is right.
struct Anchor {
    hash: Hash,
    is_good: bool,
}

/// The check so far.
struct Check<'a> {
    connection: &'a Connection,
    anchors: BTreeMap<u64, Vec<Anchor>>,
    mark: Option<Mark>,
    head: Mark,
    report: Report,
}

fn check(connection: &Connection, key: Option<&Key>, mark: Option<Mark>) -> rusqlite::Result<Report> {
    let log = store::log_id(connection)?;
    let anchors = anchors(connection, key, &log)?;
    let cut = "SELECT seq, hash FROM anchors WHERE reason = ?1 ORDER BY seq DESC LIMIT 1";
    let cut = connection
        .query_row(cut, [reason::CUT], |row| Ok(Mark { seq: row::number(row.get(0)?), hash: bytes(row, 1)? }))
        .optional()?;
    let head = cut.unwrap_or_else(|| Mark { seq: 0, hash: chain::genesis(&log) });
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
    let mut check = Check { connection, anchors, mark, head, report };
    let problem = check.run()?;
    check.report.last = check.head.seq;
    check.report.finding = problem.map(|(seq, problem)| Finding { seq, problem });
    Ok(check.report)
}

type Wrong = Option<(u64, Problem)>;

impl Check<'_> {
    fn run(&mut self) -> rusqlite::Result<Wrong> {
        let beginning = if self.head.seq > 0 { self.at_anchor() } else { self.at_mark() };
        if beginning.is_some() {
            return Ok(beginning);
        }
        let all = format!("SELECT seq, hash, content, {CELLS} FROM records NOT INDEXED ORDER BY seq");
        let mut statement = self.connection.prepare(&all)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(wrong) = self.row(row)? {
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

    fn row(&mut self, row: &Row<'_>) -> rusqlite::Result<Wrong> {
        let seq = row::number(row.get(0)?);
        let expected = self.head.seq.saturating_add(1);
        if seq < expected {
            return Ok(Some((seq, Problem::BackAgain)));
        }
        if seq > expected {
            return Ok(Some((expected, Problem::Missing { through: seq.saturating_sub(1) })));
        }
        let (hash, content) = (bytes(row, 1)?, bytes(row, 2)?);
        let cells = (3..3 + CELL_COUNT).map(|index| row.get_ref(index)).collect::<rusqlite::Result<Vec<_>>>()?;
        if chain::content(&cells) != content {
            return Ok(Some((seq, Problem::Edited)));
        }
        if chain::link(self.head.hash, seq, content) != hash {
            return self.misplaced(seq, hash, content).map(Some);
        }
        self.head = Mark { seq, hash };
        self.report.rows = self.report.rows.saturating_add(1);
        Ok(self.at_anchor())
    }

    /// Holds the row that was reached against its anchors, and against the mark.
    fn at_anchor(&mut self) -> Wrong {
        let Mark { seq, hash } = self.head;
        if let Some(wrong) = self.at_mark() {
            return Some(wrong);
        }
        let Some(anchors) = self.anchors.get(&seq) else {
            return seq.is_multiple_of(ANCHOR_EVERY).then_some((seq, Problem::AnchorMissing));
        };
        if anchors.iter().any(|anchor| !anchor.is_good) {
            return Some((seq, Problem::AnchorForged));
        }
        if anchors.iter().any(|anchor| anchor.hash != hash) {
            return Some((seq, Problem::Rewritten { after: self.report.sealed_up_to.max(self.report.pruned_up_to) }));
        }
        self.report.sealed_up_to = seq;
        None
    }

    /// Compares the row that was reached with the one that was kept elsewhere, if it is that.
    fn at_mark(&mut self) -> Wrong {
        let mark = self.mark.filter(|mark| mark.seq == self.head.seq)?;
        if mark.hash != self.head.hash {
            return Some((mark.seq, Problem::NotAsMarked));
        }
        self.report.continuity = Some(Continuity::Proven);
        None
    }

    /// A row with the right hash of its contents, and not in its place: where was it written?
    fn misplaced(&self, seq: u64, hash: Hash, content: Hash) -> rusqlite::Result<(u64, Problem)> {
        let (low, high) = (seq.saturating_sub(NEARBY), seq.saturating_add(NEARBY));
        let mut statement = self.connection.prepare("SELECT hash FROM records WHERE seq BETWEEN ?1 AND ?2")?;
        let mut rows = statement.query([row::integer(low), row::integer(high)])?;
        let mut before = vec![self.head.hash];
        while let Some(row) = rows.next()? {
            before.push(bytes(row, 0)?);
        }
        let from =
            (low..=high).find(|place| before.iter().any(|previous| chain::link(*previous, *place, content) == hash));
        Ok((seq, from.filter(|from| *from != seq).map_or(Problem::Replaced, |from| Problem::Moved { from })))
    }
}

fn anchors(connection: &Connection, key: Option<&Key>, log: &LogId) -> rusqlite::Result<BTreeMap<u64, Vec<Anchor>>> {
    let mut statement = connection.prepare("SELECT seq, reason, hash, seal FROM anchors ORDER BY seq")?;
    let mut rows = statement.query([])?;
    let mut anchors: BTreeMap<u64, Vec<Anchor>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let seq = row::number(row.get(0)?);
        let reason: String = row.get(1)?;
        let (hash, seal) = (bytes(row, 2)?, bytes(row, 3)?);
        let is_good = key.is_none_or(|key| chain::is_sealed(key, log, seq, &reason, hash, seal));
        anchors.entry(seq).or_default().push(Anchor { hash, is_good });
    }
    Ok(anchors)
}

/// A hash in a column; one that somebody made longer or shorter fits nothing.
fn bytes(row: &Row<'_>, index: usize) -> rusqlite::Result<Hash> {
    Ok(row.get_ref(index)?.as_blob().ok().and_then(Hash::from_bytes).unwrap_or(Hash([0; 32])))
}
