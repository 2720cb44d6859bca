//! The ids of jobs: calls whose callers come back for the result.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of hexadecimal digits of an id.
const ID_DIGITS: usize = 32;

/// The id of a job: 128 random bits, which nobody can guess.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(u128);

impl JobId {
    /// Creates an id from random bits.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Parses the text of an id; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain =
            text.len() == ID_DIGITS && text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
        is_plain.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(Self)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for JobId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| "invalid job id; expected 32 hexadecimal digits".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_digits_and_nothing_else() {
        let id = JobId::from_bits(0x0123_4567_89ab_cdef);
        assert_eq!(JobId::parse(&id.to_string()), Some(id));
        for text in ["", "7", &"0".repeat(31), &"0".repeat(33), &"A".repeat(32), &format!("+{}", "0".repeat(31))] {
            assert_eq!(JobId::parse(text), None, "{text}");
        }
    }
}
