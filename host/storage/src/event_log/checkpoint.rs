//! Checkpoints: one line of text each, which an independent party keeps, and with which the log is later compared.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

use fumehood_core::time::Timestamp;
use serde::{Serialize, Serializer};

use super::chain::{Hash, Mark};

/// The first word of a checkpoint: the format and its version.
const FORMAT: &str = "fumehood-log-v1";
/// The first millisecond that the calendar of RFC 3339 does not have: the year 10000.
const END_OF_CALENDAR_MS: u64 = 253_402_300_800_000;

/// The identity of a log, chosen at random when the log is created. Displayed as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId(pub [u8; 16]);

/// The state of a log at one moment: its identity, its last row and that row's hash, which covers all rows before it.
///
/// A checkpoint serves as an external witness: an attacker who can rewrite a log and its seals cannot rewrite a
/// checkpoint that is kept elsewhere. See [`super::Reader::verify_since`]. It is modelled on the checkpoints of
/// transparency logs (C2SP `tlog-checkpoint`: origin, size, root hash), in one line:
///
/// `fumehood-log-v1 <log id> <row> <hash> <time>`
///
/// The identity and the hash are hexadecimal, the row is decimal, and the time is RFC 3339 in UTC. The time of creation
/// is for information only, and is not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The identity of the log.
    pub log: LogId,
    /// The last row. Row 0 stands for the beginning of a log without records.
    pub mark: Mark,
    /// The time at which the checkpoint was created.
    pub at: Timestamp,
}

/// Errors of parsing a [`Checkpoint`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// An unknown format, possibly of another release.
    #[error("unknown checkpoint format `{0}`; expected `{FORMAT}`")]
    Format(String),
    /// A field that is missing or malformed.
    #[error(
        "expected a checkpoint from `fumehood log head`, `{FORMAT} LOG ROW HASH TIME`, but its {0} is missing or \
         malformed"
    )]
    Field(&'static str),
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { log, mark, at } = self;
        write!(f, "{FORMAT} {log} {} {} {}", mark.seq, mark.hash, format_time(*at))
    }
}

impl FromStr for Checkpoint {
    type Err = CheckpointError;

    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        let mut fields = text.split_ascii_whitespace();
        match fields.next() {
            Some(FORMAT) => {}
            other => return Err(CheckpointError::Format(other.unwrap_or_default().chars().take(64).collect())),
        }
        let mut field = |name| fields.next().ok_or(CheckpointError::Field(name));
        let log = field("log")?;
        let row = field("row")?;
        let hash = field("hash")?;
        let at = field("time")?;
        if fields.next().is_some() {
            return Err(CheckpointError::Field("end"));
        }
        let log = parse_hex(log).map(LogId).ok_or(CheckpointError::Field("log"))?;
        let seq = row.parse().map_err(|_| CheckpointError::Field("row"))?;
        let hash = parse_hex(hash).map(Hash).ok_or(CheckpointError::Field("hash"))?;
        let at = parse_time(at).ok_or(CheckpointError::Field("time"))?;
        Ok(Self { log, mark: Mark { seq, hash }, at })
    }
}

impl Serialize for Checkpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for LogId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats a time by RFC 3339, in UTC.
pub(super) fn format_time(at: Timestamp) -> impl fmt::Display {
    let since = Duration::from_millis(at.0.min(END_OF_CALENDAR_MS - 1));
    humantime::format_rfc3339_millis(UNIX_EPOCH + since)
}

/// Parses what [`format_time`] formats.
pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    let at = humantime::parse_rfc3339(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(at.as_millis()).ok().map(Timestamp)
}

/// Parses exactly `N` bytes from hexadecimal digits.
pub(crate) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = Vec::with_capacity(N);
    let mut digits = text.chars();
    while let Some(high) = digits.next() {
        if bytes.len() == N {
            return None;
        }
        let byte = high.to_digit(16)? * 16 + digits.next()?.to_digit(16)?;
        bytes.push(u8::try_from(byte).ok()?);
    }
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint() -> Checkpoint {
        let mark = Mark { seq: 42, hash: Hash([0xab; 32]) };
        Checkpoint { log: LogId([7; 16]), mark, at: Timestamp(1_795_278_600_123) }
    }

    #[test]
    fn checkpoint_round_trips_through_one_line() {
        let text = checkpoint().to_string();
        let hash = "ab".repeat(32);
        assert_eq!(text, format!("fumehood-log-v1 {} 42 {hash} 2026-11-21T16:30:00.123Z", "07".repeat(16)));
        assert_eq!(format!(" {text}\n").parse(), Ok(checkpoint()));
        let last = Checkpoint { at: Timestamp(u64::MAX), ..checkpoint() };
        assert!(last.to_string().ends_with(" 9999-12-31T23:59:59.999Z"));
    }

    #[test]
    fn parse_error_names_the_field() {
        let good = checkpoint().to_string();
        let check = |from: &str, to: &str, expected: CheckpointError| {
            assert_eq!(good.replace(from, to).parse::<Checkpoint>(), Err(expected), "{from} -> {to}");
        };
        check("log-v1", "log-v2", CheckpointError::Format("fumehood-log-v2".to_owned()));
        check("0707", "07", CheckpointError::Field("log"));
        check(" 42 ", " -1 ", CheckpointError::Field("row"));
        check("abab", "ab", CheckpointError::Field("hash"));
        check("2026-11", "2026-13", CheckpointError::Field("time"));
        check("123Z", "123Z more", CheckpointError::Field("end"));
        assert_eq!("".parse::<Checkpoint>(), Err(CheckpointError::Format(String::new())));
    }
}
