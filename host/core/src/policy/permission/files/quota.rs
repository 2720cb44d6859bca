//! Quotas of a tool's additions to a folder.

use crate::call::limits::parse_bytes;

/// Maximum additions of a tool to a folder.
///
/// - Earlier contents do not count.
/// - Bytes are counted by the size of files, holes included: growth is charged, shrinking and removal are credited, and
///   overwriting is free.
/// - An entry is a name in a folder: a file, a folder, a link.
///
/// For a granted folder the quota applies to all calls together, as long as the tool is loaded; for scratch space, to
/// each call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "wire", serde(try_from = "[u64; 2]", into = "[u64; 2]"))]
pub struct Quota {
    bytes: u64,
    entries: u64,
}

/// Errors of an invalid quota.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    /// The quota is zero.
    #[error("a quota of zero {0} allows no writes; leave it out for the default, or grant the folder for reading")]
    Zero(&'static str),
    /// The text is not an amount of bytes.
    #[error("invalid size `{0}`; expected a number with a unit, such as `512KiB` or `10MiB`")]
    Bytes(String),
}

impl Quota {
    /// Default quota of bytes: 64 MiB.
    pub const DEFAULT_BYTES: u64 = 64 << 20;
    /// Default quota of directory entries: 1,000.
    pub const DEFAULT_ENTRIES: u64 = 1_000;

    /// Creates a quota of bytes and directory entries.
    ///
    /// # Errors
    /// If one of them is zero.
    pub fn new(bytes: u64, entries: u64) -> Result<Self, QuotaError> {
        match (bytes, entries) {
            (0, _) => Err(QuotaError::Zero("bytes")),
            (_, 0) => Err(QuotaError::Zero("entries")),
            _ => Ok(Self { bytes, entries }),
        }
    }

    /// Parses an amount of bytes, such as `10MiB`, with the default quota of entries.
    ///
    /// # Errors
    /// If it is not an amount of bytes, or zero.
    pub fn parse(bytes: &str) -> Result<Self, QuotaError> {
        let amount = parse_bytes(bytes).map_err(|_| QuotaError::Bytes(bytes.to_owned()))?;
        Self::new(amount as u64, Self::DEFAULT_ENTRIES)
    }

    /// Returns the quota of bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the quota of directory entries.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.entries
    }
}

impl Default for Quota {
    fn default() -> Self {
        Self { bytes: Self::DEFAULT_BYTES, entries: Self::DEFAULT_ENTRIES }
    }
}

#[cfg(feature = "wire")]
impl From<Quota> for [u64; 2] {
    fn from(quota: Quota) -> Self {
        [quota.bytes, quota.entries]
    }
}

#[cfg(feature = "wire")]
impl TryFrom<[u64; 2]> for Quota {
    type Error = QuotaError;

    fn try_from([bytes, entries]: [u64; 2]) -> Result<Self, QuotaError> {
        Self::new(bytes, entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_zero_and_invalid_quotas() {
        fn check(text: &str, expected: Result<Quota, QuotaError>) {
            assert_eq!(Quota::parse(text), expected, "{text}");
        }

        check("10MiB", Quota::new(10 << 20, Quota::DEFAULT_ENTRIES));
        check("0", Err(QuotaError::Zero("bytes")));
        check("much", Err(QuotaError::Bytes("much".to_owned())));
        assert_eq!(Quota::new(1, 0), Err(QuotaError::Zero("entries")));
    }
}
