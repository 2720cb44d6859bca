//! Joined heads: one line of text for all chains of a log, which an independent party keeps as it keeps a checkpoint.

use std::fmt;
use std::str::FromStr;

use fumehood_core::time::Timestamp;
use serde::{Serialize, Serializer};

use super::chain::{self, Hash, LogId, Mark};
use super::checkpoint::{format_time, parse_hex, parse_time};
use super::reader::{ReadError, Reader};
use super::verify::Continuity;

/// The first word of a joined head: the format and its version.
const FORMAT: &str = "fumehood-log-join-v1";

/// The state of a log of several writers at one moment: its last position, and one hash of the heads of all chains there.
///
/// It covers every record up to the position, whoever wrote it, and the writers that there were: kept elsewhere, it shows that
/// none of them was removed, shortened or rewritten since. What is written later changes nothing. It does not say which writer
/// was changed; a [`Checkpoint`](super::Checkpoint) of each does. One line:
///
/// `fumehood-log-join-v1 <position> <writers> <hash> <time>`
///
/// The hash is hexadecimal, and the time RFC 3339 in UTC, for information only. Writers without a record are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinedHead {
    /// The last position of the one order of all records.
    pub position: u64,
    /// Number of writers that have records up to there.
    pub writers: u64,
    /// The hash of the identity, the length and the head of each of their chains.
    pub hash: Hash,
    /// The time at which the heads were read.
    pub at: Timestamp,
}

/// Errors of parsing a [`JoinedHead`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinedHeadError {
    /// An unknown format, possibly of another release.
    #[error("unknown format `{0}` of a joined head; expected `{FORMAT}`")]
    Format(String),
    /// A field that is missing or malformed.
    #[error(
        "expected a joined head from `fumehood log head`, `{FORMAT} POSITION WRITERS HASH TIME`, but its {0} is \
         missing or malformed"
    )]
    Field(&'static str),
}

impl fmt::Display for JoinedHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, writers, hash, at } = self;
        write!(f, "{FORMAT} {position} {writers} {hash} {}", format_time(*at))
    }
}

impl FromStr for JoinedHead {
    type Err = JoinedHeadError;

    fn from_str(text: &str) -> Result<Self, JoinedHeadError> {
        let mut fields = text.split_ascii_whitespace();
        match fields.next() {
            Some(FORMAT) => {}
            other => return Err(JoinedHeadError::Format(other.unwrap_or_default().chars().take(64).collect())),
        }
        let mut field = |name| fields.next().ok_or(JoinedHeadError::Field(name));
        let position = field("position")?;
        let writers = field("number of writers")?;
        let hash = field("hash")?;
        let at = field("time")?;
        if fields.next().is_some() {
            return Err(JoinedHeadError::Field("end"));
        }
        Ok(Self {
            position: position.parse().map_err(|_| JoinedHeadError::Field("position"))?,
            writers: writers.parse().map_err(|_| JoinedHeadError::Field("number of writers"))?,
            hash: parse_hex(hash).map(Hash).ok_or(JoinedHeadError::Field("hash"))?,
            at: parse_time(at).ok_or(JoinedHeadError::Field("time"))?,
        })
    }
}

impl Serialize for JoinedHead {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The head of a chain.
pub(crate) type ChainHead = (LogId, Mark);

/// The heads of all chains of a log at one position.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// The last position of the log, which may be beyond the one that was asked for.
    pub(crate) last_position: u64,
    /// Those whose rows are there.
    pub(crate) certain: Vec<ChainHead>,
    /// The last removed rows of chains that have no older row left. Such a row may have been the head.
    pub(crate) pruned: Vec<ChainHead>,
}

/// The comparison of a log with a [`JoinedHead`] that was kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JoinReport {
    /// The joined head that was kept.
    pub joined: JoinedHead,
    /// The result; `None` if there is a finding.
    pub continuity: Option<Continuity>,
    /// The difference, if there is one.
    pub finding: Option<JoinProblem>,
}

/// A difference between a log and a joined head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinProblem {
    /// The log ends before the position.
    Shortened {
        /// Its last position.
        last: u64,
    },
    /// The log has fewer or more writers with records up to the position.
    Writers {
        /// Their number.
        found: u64,
    },
    /// The heads of the chains are others.
    Heads,
}

impl fmt::Display for JoinReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JoinedHead { position, writers, .. } = self.joined;
        match (self.finding, self.continuity) {
            (Some(JoinProblem::Shortened { last }), _) => {
                write!(f, "the log ended at position {position}, but now ends at {last}: records were removed")
            }
            (Some(JoinProblem::Writers { found }), _) => write!(
                f,
                "{writers} writers had records up to position {position}, but now {found} have: one was removed \
                 completely, or added"
            ),
            (Some(JoinProblem::Heads), _) => write!(
                f,
                "the chains of the {writers} writers changed before position {position}: records were removed or \
                 rewritten"
            ),
            (None, Some(Continuity::Removed)) => write!(
                f,
                "retention removed records up to position {position}, so the joined head could not be compared; use a \
                 later one"
            ),
            (None, _) => {
                write!(f, "consistent with the joined head: nothing up to position {position} was changed or removed")
            }
        }
    }
}

impl Reader {
    /// Returns the joined head of the current state, to be kept elsewhere; `None` for a log with one chain, which has a
    /// [checkpoint](Self::checkpoint). It is taken without verification, as that is.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn joined_head(&self, now: Timestamp) -> Result<Option<JoinedHead>, ReadError> {
        let heads = self.source().heads_at(None)?;
        Ok(heads.map(|Heads { last_position, certain, .. }| JoinedHead {
            position: last_position,
            writers: certain.len() as u64,
            hash: chain::join(certain),
            at: now,
        }))
    }

    /// Compares the heads of all chains with a joined head that was kept; `None` for a log with one chain. That the rows before
    /// these heads are in order is what [`Self::verify_all`] shows.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn verify_joined(&self, joined: &JoinedHead) -> Result<Option<JoinReport>, ReadError> {
        let heads = self.source().heads_at(Some(joined.position))?;
        Ok(heads.map(|heads| {
            let compared = compare(joined, heads);
            JoinReport { joined: *joined, continuity: compared.ok(), finding: compared.err() }
        }))
    }
}

fn compare(joined: &JoinedHead, heads: Heads) -> Result<Continuity, JoinProblem> {
    let Heads { last_position, certain, pruned } = heads;
    let fewest = certain.len() as u64;
    let most = (certain.len().saturating_add(pruned.len())) as u64;
    let has_pruned = !pruned.is_empty();
    let all = certain.iter().copied().chain(pruned).collect();
    if last_position < joined.position {
        return Err(JoinProblem::Shortened { last: last_position });
    }
    if joined.writers < fewest || joined.writers > most {
        return Err(JoinProblem::Writers { found: if joined.writers < fewest { fewest } else { most } });
    }
    // A chain of which all was removed may also have come later, as a copy of another log.
    if chain::join(certain) == joined.hash || chain::join(all) == joined.hash {
        return Ok(Continuity::Proven);
    }
    if has_pruned { Ok(Continuity::Removed) } else { Err(JoinProblem::Heads) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(log: u8, seq: u64) -> ChainHead {
        ([log; 16], Mark { seq, hash: Hash([log; 32]) })
    }

    fn joined(certain: &[ChainHead]) -> JoinedHead {
        let writers = certain.len() as u64;
        let hash = chain::join(certain.to_vec());
        JoinedHead { position: 9, writers, hash, at: Timestamp(1_795_278_600_123) }
    }

    #[test]
    fn joined_head_round_trips_through_one_line() {
        let joined = JoinedHead { hash: Hash([0xab; 32]), ..joined(&[head(1, 3), head(2, 6)]) };
        let text = joined.to_string();
        let hash = "ab".repeat(32);
        assert_eq!(text, format!("fumehood-log-join-v1 9 2 {hash} 2026-11-21T16:30:00.123Z"));
        assert_eq!(format!(" {text}\n").parse(), Ok(joined));
        let check = |from: &str, to: &str, expected: JoinedHeadError| {
            assert_eq!(text.replace(from, to).parse::<JoinedHead>(), Err(expected), "{from} -> {to}");
        };
        check("join-v1", "join-v2", JoinedHeadError::Format("fumehood-log-join-v2".to_owned()));
        check(" 9 ", " -9 ", JoinedHeadError::Field("position"));
        check(" 2 ", " two ", JoinedHeadError::Field("number of writers"));
        check("abab", "ab", JoinedHeadError::Field("hash"));
        check("2026-11", "2026-13", JoinedHeadError::Field("time"));
        check("123Z", "123Z more", JoinedHeadError::Field("end"));
    }

    #[test]
    fn chains_are_joined_in_any_order() {
        let hash = |heads: &[ChainHead]| chain::join(heads.to_vec());
        assert_eq!(hash(&[head(1, 3), head(2, 6)]), hash(&[head(2, 6), head(1, 3)]));
        for other in [&[head(1, 3)][..], &[head(1, 3), head(2, 5)], &[head(1, 3), head(3, 6)], &[]] {
            assert_ne!(hash(&[head(1, 3), head(2, 6)]), hash(other), "{other:?}");
        }
        // Joined heads of released versions must stay valid.
        let known = "e634cec8b6850d41a4d59ef6e0c590ab5dc8e8bd668949bca1effd80cb63a9a2";
        assert_eq!(hash(&[head(1, 3), head(2, 6)]).to_string(), known);
    }

    #[test]
    fn compares_what_is_there_with_what_was_kept() {
        check_heads(&[head(2, 6), head(1, 3)], &[], Ok(Continuity::Proven));
        check_heads(&[head(1, 3)], &[], Err(JoinProblem::Writers { found: 1 }));
        check_heads(&[head(1, 3), head(2, 6), head(3, 1)], &[], Err(JoinProblem::Writers { found: 3 }));
        check_heads(&[head(1, 2), head(2, 6)], &[], Err(JoinProblem::Heads));
        // The last row that was removed was the head, or a later one, or one of a chain that was copied later.
        check_heads(&[head(1, 3)], &[head(2, 6)], Ok(Continuity::Proven));
        check_heads(&[head(1, 3)], &[head(2, 8)], Ok(Continuity::Removed));
        check_heads(&[head(1, 3), head(2, 6)], &[head(3, 5)], Ok(Continuity::Proven));
        check_heads(&[], &[head(2, 6)], Err(JoinProblem::Writers { found: 1 }));
        let short = Heads { last_position: 8, certain: vec![head(1, 3), head(2, 6)], pruned: Vec::new() };
        let found = compare(&joined(&[head(1, 3), head(2, 6)]), short);
        assert_eq!(found, Err(JoinProblem::Shortened { last: 8 }));
    }

    fn check_heads(certain: &[ChainHead], pruned: &[ChainHead], expected: Result<Continuity, JoinProblem>) {
        let heads = Heads { last_position: 12, certain: certain.to_vec(), pruned: pruned.to_vec() };
        assert_eq!(compare(&joined(&[head(1, 3), head(2, 6)]), heads), expected, "{certain:?} {pruned:?}");
    }
}
