//! Quotas of a tool's additions to a folder.

use crate::call::limits::parse_bytes;
use crate::policy::permission::GrantError;

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

impl Quota {
    /// Default quota of bytes: 64 MiB.
    pub const DEFAULT_BYTES: u64 = 64 << 20;
    /// Default quota of directory entries: 1,000.
    pub const DEFAULT_ENTRIES: u64 = 1_000;

    /// Creates a quota of bytes and directory entries.
    ///
    /// # Errors
    /// If one of them is zero.
    pub fn new(bytes: u64, entries: u64) -> Result<Self, GrantError> {
        match (bytes, entries) {
            (0, _) => Err(zero("bytes")),
            (_, 0) => Err(zero("entries")),
            _ => Ok(Self { bytes, entries }),
        }
    }

    /// Parses an amount of bytes, such as `10MiB`, with the default quota of entries.
    ///
    /// # Errors
    /// If it is not an amount of bytes, or zero.
    pub fn parse(bytes: &str) -> Result<Self, GrantError> {
        let Ok(amount) = parse_bytes(bytes) else {
            return Err(GrantError::new(format!(
                "invalid size `{bytes}`; expected a number with a unit, such as `512KiB` or `10MiB`"
            )));
        };
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

fn zero(what: &str) -> GrantError {
    GrantError::new(format!(
        "a quota of zero {what} allows no writes; leave it out for the default, or grant the folder for reading"
    ))
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
    type Error = GrantError;

    fn try_from([bytes, entries]: [u64; 2]) -> Result<Self, GrantError> {
        Self::new(bytes, entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_zero_and_invalid_quotas() {
        fn check(text: &str, expected: Result<Quota, GrantError>) {
            assert_eq!(Quota::parse(text), expected, "{text}");
        }

        check("10MiB", Quota::new(10 << 20, Quota::DEFAULT_ENTRIES));
        check("0", Err(zero("bytes")));
        assert_eq!(Quota::new(1, 0), Err(zero("entries")));
        let error = Quota::parse("much").unwrap_err().to_string();
        assert!(error.starts_with("invalid size `much`; expected a number with a unit"), "{error}");
    }
}
