//! How much a tool may add to a folder.

use crate::limits::parse_bytes;

/// How much a tool may add to a folder.
///
/// What was there before does not count. Bytes are counted by the size of files, holes included: a file that grows is
/// charged by what it grows, one that shrinks or is removed gives that back. Overwriting is free. An entry is a name in
/// a folder: a file, a folder, a link.
///
/// For a granted folder this holds over all calls for as long as the tool is loaded; for scratch space, for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    bytes: u64,
    entries: u64,
}

/// A quota that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    /// Nothing could be written.
    #[error(
        "a quota of zero {0} lets the tool write nothing; leave it out for the default, or grant the folder for reading only"
    )]
    Zero(&'static str),
    /// Not an amount.
    #[error("`{0}` is not an amount of bytes; write a number and a unit, such as `512KiB` or `10MiB`")]
    Bytes(String),
}

impl Quota {
    /// 64 MiB.
    pub const DEFAULT_BYTES: u64 = 64 << 20;
    /// 1,000 names.
    pub const DEFAULT_ENTRIES: u64 = 1_000;

    /// So many bytes and names.
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

    /// So many bytes, and the default number of names: `10MiB`.
    ///
    /// # Errors
    /// If it is no amount of bytes, or zero.
    pub fn parse(bytes: &str) -> Result<Self, QuotaError> {
        let amount = parse_bytes(bytes).map_err(|_| QuotaError::Bytes(bytes.to_owned()))?;
        Self::new(amount as u64, Self::DEFAULT_ENTRIES)
    }

    /// Bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Names.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_more_than_nothing() {
        let check = |text: &str, expected| assert_eq!(Quota::parse(text), expected, "{text}");
        check("10MiB", Quota::new(10 << 20, Quota::DEFAULT_ENTRIES));
        check("0", Err(QuotaError::Zero("bytes")));
        check("much", Err(QuotaError::Bytes("much".to_owned())));
        assert_eq!(Quota::new(1, 0), Err(QuotaError::Zero("entries")));
    }
}
