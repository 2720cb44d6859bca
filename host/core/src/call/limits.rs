//! Limits of one call, and parsing of durations, sizes and counts.

use std::time::Duration;

use bytesize::ByteSize;

/// The limits of one call. The host enforces all of them; a guest can neither see nor change them.
///
/// ```
/// use std::time::Duration;
///
/// use fumehood_core::call::limits::{LimitError, Limits};
///
/// let limits = Limits::default().deadline(Duration::from_secs(2)).memory(16 << 20);
/// limits.check(256 << 20)?;
/// // A host whose memory ceiling is 8 MiB cannot provide them.
/// assert!(matches!(limits.check(8 << 20), Err(LimitError::TooMuch { what: "memory", .. })));
/// # Ok::<(), LimitError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Limits {
    /// Maximum wall time from the moment the call leaves the queue until its instance is dropped.
    pub deadline: Duration,
    /// Maximum number of instructions, in wasmtime's fuel: about one for each WebAssembly instruction, and one for each
    /// byte that a bulk instruction touches.
    pub fuel: u64,
    /// Maximum size of all linear memories and tables, and of what the host keeps for the guest between two host
    /// functions (requests, headers, bodies, streams and other handles), together, in bytes.
    pub memory: usize,
    /// Maximum size of all parts of the result together, in bytes. Each part after the first counts 32 bytes more than it has.
    pub output: usize,
    /// Maximum size of all log lines and progress updates together, in bytes, and separately of stdout and stderr
    /// together. Excess bytes are dropped and counted.
    pub log: usize,
    /// Maximum number of handles (resources) that are alive at once.
    pub handles: usize,
    /// Maximum allocation for the values that the guest passes in one host call or as its result, in bytes.
    pub hostcall_bytes: usize,
    /// Maximum randomness in one request of the guest, in bytes.
    pub random_bytes: u64,
    /// Maximum length of a single string in the arguments, in bytes. `None` is the limit of the host's gate. The value
    /// with which a component is loaded applies, not that of a call.
    pub string: Option<usize>,
}

impl Default for Limits {
    /// Returns limits that are enough for an ordinary tool and let hundreds of calls fit in a small machine.
    ///
    /// - deadline: 10 s
    /// - fuel: 10 billion instructions
    /// - memory: 64 MiB
    /// - output: 1 MiB
    /// - log: 256 KiB
    /// - handles: 1,024
    /// - host call: 8 MiB
    /// - randomness: 64 KiB
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

/// Errors in limits, or in the texts that they are parsed from.
///
/// ```
/// use std::time::Duration;
///
/// use fumehood_core::call::limits::{LimitError, parse_bytes, parse_duration};
///
/// assert_eq!(parse_duration("1m 30s"), Ok(Duration::from_secs(90)));
/// assert_eq!(parse_bytes("64MiB"), Ok(64 << 20));
/// let error = LimitError::Duration("soon".to_owned());
/// assert_eq!(parse_duration("soon"), Err(error.clone()));
/// assert!(error.to_string().starts_with("invalid time `soon`; expected a number with a unit"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The text is not an amount of time.
    #[error("invalid time `{0}`; expected a number with a unit, such as `250ms`, `2s` or `1m 30s`")]
    Duration(String),
    /// The text is not an amount of bytes.
    #[error("invalid size `{0}`; expected a number with a unit, such as `512KiB` or `64MiB`")]
    Bytes(String),
    /// The text is not a count.
    #[error(
        "invalid count `{0}`; expected a whole number, such as `500`, or with `k`, `M` or `G` for thousands, millions \
         or billions"
    )]
    Count(String),
    /// The limit is zero, so that no call could succeed.
    #[error("the {0} limit is zero, so no call could succeed; leave it out for the default")]
    Zero(&'static str),
    /// The limit exceeds what the host can provide.
    #[error("the {what} limit is {found}, but the maximum of this host is {maximum}")]
    TooMuch {
        /// The name of the limit.
        what: &'static str,
        /// The requested value.
        found: String,
        /// The maximum value.
        maximum: String,
    },
}

impl Limits {
    /// Maximum deadline: one day.
    pub const MAX_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

    /// Sets the maximum wall time.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the maximum number of instructions.
    #[must_use]
    pub const fn fuel(mut self, fuel: u64) -> Self {
        self.fuel = fuel;
        self
    }

    /// Sets the maximum size of memory, in bytes.
    #[must_use]
    pub const fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets the maximum size of the result, in bytes.
    #[must_use]
    pub const fn output(mut self, bytes: usize) -> Self {
        self.output = bytes;
        self
    }

    /// Sets the maximum size of log lines and progress, in bytes.
    #[must_use]
    pub const fn log(mut self, bytes: usize) -> Self {
        self.log = bytes;
        self
    }

    /// Sets the maximum number of handles.
    #[must_use]
    pub const fn handles(mut self, handles: usize) -> Self {
        self.handles = handles;
        self
    }

    /// Sets the maximum allocation of one host call, in bytes.
    #[must_use]
    pub const fn hostcall_bytes(mut self, bytes: usize) -> Self {
        self.hostcall_bytes = bytes;
        self
    }

    /// Sets the maximum randomness of one request, in bytes.
    #[must_use]
    pub const fn random_bytes(mut self, bytes: u64) -> Self {
        self.random_bytes = bytes;
        self
    }

    /// Sets the maximum length of a string in the arguments, in bytes. `None` is the limit of the host's gate.
    #[must_use]
    pub const fn string(mut self, bytes: Option<usize>) -> Self {
        self.string = bytes;
        self
    }

    /// Checks that a call could succeed within these limits and that a host with `memory_ceiling` bytes can provide
    /// them.
    ///
    /// # Errors
    /// If a limit is zero, or exceeds what the host can provide.
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
                maximum: display_bytes(memory_ceiling as u64),
            });
        }
        if self.deadline > Self::MAX_DEADLINE {
            return Err(LimitError::TooMuch {
                what: "deadline",
                found: humantime::format_duration(self.deadline).to_string(),
                maximum: humantime::format_duration(Self::MAX_DEADLINE).to_string(),
            });
        }
        Ok(())
    }
}

/// Parses a duration, such as `250ms`, `2s`, `1m 30s`.
///
/// # Errors
/// If it is not a number with a unit of time.
pub fn parse_duration(text: &str) -> Result<Duration, LimitError> {
    humantime::parse_duration(text.trim()).map_err(|_| LimitError::Duration(text.to_owned()))
}

/// Parses an amount of bytes, such as `65536`, `64KiB`, `64MiB`, `1.5GB` (KB, MB and GB are powers of ten).
///
/// # Errors
/// If it is not a number of bytes, or does not fit in this machine's address space.
pub fn parse_bytes(text: &str) -> Result<usize, LimitError> {
    let invalid = || LimitError::Bytes(text.to_owned());
    let size: ByteSize = text.trim().parse().map_err(|_| invalid())?;
    usize::try_from(size.as_u64()).map_err(|_| invalid())
}

/// Parses a count, such as `5000`, `250k`, `10M`, `2G`.
///
/// # Errors
/// If it is not a whole number, or does not fit in 64 bits.
pub fn parse_count(text: &str) -> Result<u64, LimitError> {
    let invalid = || LimitError::Count(text.to_owned());
    let trimmed = text.trim();
    let (digits, unit) = match trimmed.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (trimmed.get(..at), 1_000),
        Some((at, 'm' | 'M')) => (trimmed.get(..at), 1_000_000),
        Some((at, 'g' | 'G')) => (trimmed.get(..at), 1_000_000_000),
        _ => (Some(trimmed), 1),
    };
    let number: u64 = digits.ok_or_else(invalid)?.trim_end().replace('_', "").parse().map_err(|_| invalid())?;
    number.checked_mul(unit).ok_or_else(invalid)
}

/// Formats an amount of bytes, such as `64.0 MiB`.
#[must_use]
pub fn display_bytes(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

/// Formats a count, such as units of fuel: `950`, `12.3 k`, `4.6 M`, `7.9 G`.
#[must_use]
pub fn display_count(count: u64) -> String {
    let number = count as f64;
    match count {
        0..10_000 => count.to_string(),
        // What is rounded to a thousand has the next unit.
        10_000..999_950 => format!("{:.1} k", number / 1e3),
        999_950..999_950_000 => format!("{:.1} M", number / 1e6),
        _ => format!("{:.1} G", number / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_counts_have_a_unit() {
        let texts = [9_999, 123_456, 999_960, 4_600_000, 10_000_000_000].map(display_count);
        assert_eq!(texts, ["9999", "123.5 k", "1.0 M", "4.6 M", "10.0 G"]);
    }

    #[test]
    fn parses_amounts_with_units() {
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
    fn rejects_zero_and_excessive_limits() {
        let ceiling = 256 << 20;
        let limits = Limits::default();
        assert_eq!(limits.check(ceiling), Ok(()));
        assert_eq!(Limits { deadline: Duration::ZERO, ..limits }.check(ceiling), Err(LimitError::Zero("deadline")));
        assert_eq!(Limits { fuel: 0, ..limits }.check(ceiling), Err(LimitError::Zero("fuel")));
        assert_eq!(
            Limits { memory: 1 << 30, ..limits }.check(ceiling).unwrap_err().to_string(),
            "the memory limit is 1.0 GiB, but the maximum of this host is 256.0 MiB"
        );
        assert!(Limits { deadline: Duration::MAX, ..limits }.check(ceiling).is_err());
    }
}
