//! How far one call may go.

use std::time::Duration;

use bytesize::ByteSize;
use serde::Serialize;

/// The limits of one call. Every one is enforced by the host; a guest can neither see nor change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Wall time from the moment the call leaves the queue until its instance is gone.
    #[serde(serialize_with = "as_millis")]
    pub deadline: Duration,
    /// How many instructions the guest may run, in wasmtime's fuel: about one for each WebAssembly instruction, and one
    /// for each byte that a bulk instruction touches.
    pub fuel: u64,
    /// Bytes over all linear memories and tables of the call.
    pub memory: usize,
    /// Bytes over all parts of the result.
    pub output: usize,
    /// Bytes over all log lines and progress updates of the call, and the same again over stdout and stderr together.
    /// What goes over is dropped and counted.
    pub log: usize,
    /// Handles (resources) that are alive at once.
    pub handles: usize,
    /// Bytes that the host may allocate to hold what the guest passes in one host call or as its result.
    pub hostcall_bytes: usize,
    /// Bytes of randomness that the guest may ask for in one request.
    pub random_bytes: u64,
    /// Bytes of a single string in the arguments; as the gate of the host has it, if not said. What a component is loaded
    /// with counts, not what a call brings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub string: Option<usize>,
}

impl Default for Limits {
    /// 10 s, 10 billion instructions, 64 MiB of memory, 1 MiB of result: enough for an ordinary tool, and little enough
    /// that hundreds of calls fit in a small machine.
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            fuel: 10_000_000_000,
            memory: 64 << 20,
            output: 1 << 20,
            log: 256 << 10,
            handles: 1024,
            hostcall_bytes: 8 << 20,
            random_bytes: 64 << 10,
            string: None,
        }
    }
}

/// A limit that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Not an amount of time.
    #[error("`{0}` is not an amount of time; write a number and a unit, such as `250ms`, `2s` or `1m 30s`")]
    Duration(String),
    /// Not an amount of bytes.
    #[error("`{0}` is not an amount of bytes; write a number and a unit, such as `512KiB` or `64MiB`")]
    Bytes(String),
    /// Not a count.
    #[error("`{0}` is not a count; write a whole number, with `k`, `M` or `G` for thousands, millions or billions")]
    Count(String),
    /// Nothing can be done in it.
    #[error("the {0} limit is zero, so that no call could succeed; leave it out for the default")]
    Zero(&'static str),
    /// More than the host can give.
    #[error("the {what} limit is {found}; this host gives at most {most}")]
    TooMuch {
        /// Which limit.
        what: &'static str,
        /// What was asked for.
        found: String,
        /// What can be had.
        most: String,
    },
}

impl Limits {
    /// The longest deadline: one day.
    pub const MOST_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

    /// Checks that a call could succeed within these limits and that a host with `memory_ceiling` can keep them.
    ///
    /// # Errors
    /// If a limit is zero, or above what the host can give.
    pub fn check(&self, memory_ceiling: usize) -> Result<(), LimitError> {
        let zero = [
            ("deadline", self.deadline.is_zero()),
            ("fuel", self.fuel == 0),
            ("memory", self.memory == 0),
            ("output", self.output == 0),
            ("string", self.string == Some(0)),
        ];
        if let Some((what, _)) = zero.iter().find(|(_, zero)| *zero) {
            return Err(LimitError::Zero(what));
        }
        if self.memory > memory_ceiling {
            return Err(LimitError::TooMuch {
                what: "memory",
                found: display_bytes(self.memory as u64),
                most: display_bytes(memory_ceiling as u64),
            });
        }
        if self.deadline > Self::MOST_DEADLINE {
            return Err(LimitError::TooMuch {
                what: "deadline",
                found: humantime::format_duration(self.deadline).to_string(),
                most: humantime::format_duration(Self::MOST_DEADLINE).to_string(),
            });
        }
        Ok(())
    }
}

/// Reads `250ms`, `2s`, `1m 30s`.
///
/// # Errors
/// If it is not a number with a unit of time.
pub fn parse_duration(text: &str) -> Result<Duration, LimitError> {
    humantime::parse_duration(text.trim()).map_err(|_| LimitError::Duration(text.to_owned()))
}

/// Reads `65536`, `64KiB`, `64MiB`, `1.5GB` (KB, MB and GB are powers of ten).
///
/// # Errors
/// If it is not a number of bytes, or does not fit in this machine's address space.
pub fn parse_bytes(text: &str) -> Result<usize, LimitError> {
    let refused = || LimitError::Bytes(text.to_owned());
    let size: ByteSize = text.trim().parse().map_err(|_| refused())?;
    usize::try_from(size.as_u64()).map_err(|_| refused())
}

/// Reads `5000`, `250k`, `10M`, `2G`.
///
/// # Errors
/// If it is not a whole number, or does not fit in 64 bits.
pub fn parse_count(text: &str) -> Result<u64, LimitError> {
    let refused = || LimitError::Count(text.to_owned());
    let trimmed = text.trim();
    let (digits, unit) = match trimmed.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (trimmed.get(..at), 1_000),
        Some((at, 'm' | 'M')) => (trimmed.get(..at), 1_000_000),
        Some((at, 'g' | 'G')) => (trimmed.get(..at), 1_000_000_000),
        _ => (Some(trimmed), 1),
    };
    let number: u64 = digits.ok_or_else(refused)?.trim_end().replace('_', "").parse().map_err(|_| refused())?;
    number.checked_mul(unit).ok_or_else(refused)
}

/// Writes `64 MiB`.
#[must_use]
pub fn display_bytes(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

fn as_millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_with_their_units() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_bytes("64MiB"), Ok(64 << 20));
        assert_eq!(parse_bytes("1.5 kB"), Ok(1500));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_count("10M"), Ok(10_000_000));
        assert_eq!(parse_count("1_000"), Ok(1000));
        for text in ["", "250", "fast", "-1s"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
        for text in ["", "MiB", "-5MB", "lots"] {
            assert!(parse_bytes(text).is_err(), "{text:?}");
        }
        for text in ["", "k", "1.5k", "-1", "99999999999999G"] {
            assert!(parse_count(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn limits_that_cannot_be_kept_are_refused() {
        let ceiling = 256 << 20;
        let limits = Limits::default();
        assert_eq!(limits.check(ceiling), Ok(()));
        assert_eq!(Limits { deadline: Duration::ZERO, ..limits }.check(ceiling), Err(LimitError::Zero("deadline")));
        assert_eq!(Limits { fuel: 0, ..limits }.check(ceiling), Err(LimitError::Zero("fuel")));
        assert_eq!(
            Limits { memory: 1 << 30, ..limits }.check(ceiling).unwrap_err().to_string(),
            "the memory limit is 1.0 GiB; this host gives at most 256.0 MiB"
        );
        assert!(Limits { deadline: Duration::MAX, ..limits }.check(ceiling).is_err());
    }
}
