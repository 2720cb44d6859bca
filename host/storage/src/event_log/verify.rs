//! Verification of a log: the chain of hashes, the anchors and their seals.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::anchor::{ANCHOR_INTERVAL_ROWS, reason};
use super::chain::{self, Cell, Hash, Key, LogId, Mark};
use super::checkpoint;

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
    /// The comparison with the mark or checkpoint that was given, of several with that of the highest row; `None` if there
    /// was none, or if the verification ended before it was reached.
    pub continuity: Option<Continuity>,
    /// The first problem, if any.
    pub finding: Option<Finding>,
}

impl Report {
    /// Returns the report of a log without rows.
    pub(crate) fn empty(log: checkpoint::LogId) -> Self {
        Self {
            log,
            rows: 0,
            pruned_up_to: 0,
            sealed_up_to: 0,
            last: 0,
            seals_checked: false,
            continuity: None,
            finding: None,
        }
    }
}

/// The comparison of a log with a mark or a [`Checkpoint`](super::Checkpoint) that was kept elsewhere.
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
            Problem::Edited => write!(f, "row {seq} was edited: it does not match its hash"),
            Problem::Missing { through } if *through == seq => write!(f, "row {seq} was removed"),
            Problem::Missing { through } => write!(f, "rows {seq} to {through} were removed"),
            Problem::Moved { from } => write!(f, "row {seq} was moved: it was written as row {from}"),
            Problem::Replaced => {
                write!(f, "row {seq} does not follow the row before it: it was replaced or moved, or one was removed")
            }
            Problem::Rewritten { after } => {
                let first = after.saturating_add(1);
                write!(f, "rows {first} to {seq} were rewritten: they do not match the anchor at row {seq}")
            }
            Problem::BackAgain => write!(f, "row {seq} was restored after retention had removed it"),
            Problem::AnchorMissing => write!(f, "the anchor of row {seq} was removed"),
            Problem::AnchorForged => write!(f, "the anchor of row {seq} is forged, or the key belongs to another log"),
            Problem::NotAsMarked => write!(f, "row {seq} does not match the mark"),
            Problem::OtherLog => {
                write!(
                    f,
                    "this is not the log of the checkpoint: it was replaced by another log (row {seq} is missing)"
                )
            }
            Problem::Structure(what) => write!(f, "the file is damaged: {what}"),
        }
    }
}

/// A row of a chain, as a database returns it.
pub(crate) struct ChainRow<'a> {
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
    pub(crate) content: Hash,
    pub(crate) cells: &'a [Cell<'a>],
}

/// An anchor, as a database returns it.
#[derive(Debug, Clone)]
pub(crate) struct StoredAnchor {
    pub(crate) seq: u64,
    pub(crate) reason: String,
    pub(crate) hash: Hash,
    pub(crate) seal: Hash,
}

/// A problem, and its row.
pub(crate) type Violation = Option<(u64, Problem)>;

/// The result of checking one row.
pub(crate) enum Step {
    /// The row follows the one before it.
    Follows,
    /// The row has a problem.
    Wrong(u64, Problem),
    /// The contents of the row match its hash, but its link does not: see [`Verifier::classify_misplaced`].
    Misplaced,
}

/// An anchor with the result of checking its seal.
struct Anchor {
    hash: Hash,
    is_valid: bool,
}

/// The verification of one chain, whose rows the database hands in one after the other.
pub(crate) struct Verifier {
    anchors: BTreeMap<u64, Vec<Anchor>>,
    /// The marks that were kept elsewhere, by row. Of two with the same row, one may be of a log that was replaced by an older copy and went on.
    marks: BTreeMap<u64, Vec<Hash>>,
    head: Mark,
    report: Report,
}

impl Verifier {
    /// Begins the verification of a chain with all of its anchors. Seals are checked if the key is given.
    pub(crate) fn new(log: &LogId, key: Option<&Key>, stored: Vec<StoredAnchor>, kept: &[Mark]) -> Self {
        let cuts = stored.iter().filter(|anchor| anchor.reason == reason::CUT);
        let cut = cuts.max_by_key(|anchor| anchor.seq).map(|anchor| Mark { seq: anchor.seq, hash: anchor.hash });
        let mut anchors: BTreeMap<u64, Vec<Anchor>> = BTreeMap::new();
        for StoredAnchor { seq, reason, hash, seal } in stored {
            let is_valid = key.is_none_or(|key| chain::is_valid_seal(key, log, seq, &reason, hash, seal));
            anchors.entry(seq).or_default().push(Anchor { hash, is_valid });
        }
        let head = cut.unwrap_or_else(|| Mark { seq: 0, hash: chain::genesis_hash(log) });
        let mut marks: BTreeMap<u64, Vec<Hash>> = BTreeMap::new();
        kept.iter().for_each(|mark| marks.entry(mark.seq).or_default().push(mark.hash));
        let is_removed = marks.keys().next_back().is_some_and(|newest| *newest < head.seq);
        let report = Report {
            pruned_up_to: head.seq,
            last: head.seq,
            seals_checked: key.is_some(),
            continuity: is_removed.then_some(Continuity::Removed),
            ..Report::empty(checkpoint::LogId(*log))
        };
        Self { anchors, marks, head, report }
    }

    /// Checks the beginning of the chain, before its first row.
    pub(crate) fn check_beginning(&mut self) -> Violation {
        // Of two marks of one row that differ, one is wrong, even if the row was pruned.
        let mut pruned = self.marks.range(..self.head.seq);
        if let Some((seq, _)) = pruned.find(|(_, hashes)| hashes.windows(2).any(|pair| pair.first() != pair.last())) {
            return Some((*seq, Problem::NotAsMarked));
        }
        if self.head.seq > 0 { self.check_anchors() } else { self.check_marks() }
    }

    /// Checks the next row.
    pub(crate) fn check_row(&mut self, row: &ChainRow<'_>) -> Step {
        let ChainRow { seq, hash, content, cells } = *row;
        let expected = self.head.seq.saturating_add(1);
        if seq < expected {
            return Step::Wrong(seq, Problem::BackAgain);
        }
        if seq > expected {
            return Step::Wrong(expected, Problem::Missing { through: seq.saturating_sub(1) });
        }
        if chain::content_hash(cells) != content {
            return Step::Wrong(seq, Problem::Edited);
        }
        if chain::row_hash(self.head.hash, seq, content) != hash {
            return Step::Misplaced;
        }
        self.head = Mark { seq, hash };
        self.report.rows = self.report.rows.saturating_add(1);
        self.check_anchors().map_or(Step::Follows, |(seq, problem)| Step::Wrong(seq, problem))
    }

    /// Compares the current row with its anchors, and with the marks.
    fn check_anchors(&mut self) -> Violation {
        let Mark { seq, hash } = self.head;
        if let Some(wrong) = self.check_marks() {
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

    /// Compares the current row with its marks, if it has any.
    fn check_marks(&mut self) -> Violation {
        let Mark { seq, hash } = self.head;
        let marks = self.marks.get(&seq)?;
        if marks.iter().any(|mark| *mark != hash) {
            return Some((seq, Problem::NotAsMarked));
        }
        if self.marks.keys().next_back() == Some(&seq) {
            self.report.continuity = Some(Continuity::Proven);
        }
        None
    }

    /// Returns the first and the last row among which the original place of a misplaced row is searched for.
    pub(crate) fn neighbourhood(seq: u64) -> (u64, u64) {
        (seq.saturating_sub(MAX_MOVE_ROWS), seq.saturating_add(MAX_MOVE_ROWS))
    }

    /// Finds the original place of a misplaced row, from the hashes of the rows in its neighbourhood.
    pub(crate) fn classify_misplaced(&self, row: &ChainRow<'_>, neighbours: &[Hash]) -> (u64, Problem) {
        let (low, high) = Self::neighbourhood(row.seq);
        let mut places = low..=high;
        let from = places.find(|place| {
            let mut before = std::iter::once(&self.head.hash).chain(neighbours);
            before.any(|previous| chain::row_hash(*previous, *place, row.content) == row.hash)
        });
        let from = from.filter(|from| *from != row.seq);
        (row.seq, from.map_or(Problem::Replaced, |from| Problem::Moved { from }))
    }

    /// Checks that no row is missing from the end that an anchor, or a mark, knows.
    pub(crate) fn check_end(&self) -> Violation {
        let last = self.head.seq;
        let known = self.anchors.keys().next_back().max(self.marks.keys().next_back()).copied().unwrap_or(0);
        (known > last).then_some((last.saturating_add(1), Problem::Missing { through: known }))
    }

    /// Returns the last row that was checked.
    pub(crate) fn head(&self) -> Mark {
        self.head
    }

    /// Ends the verification.
    pub(crate) fn into_report(mut self, violation: Violation) -> Report {
        self.report.last = self.head.seq;
        self.report.finding = violation.map(|(seq, problem)| Finding { seq, problem });
        self.report
    }
}
