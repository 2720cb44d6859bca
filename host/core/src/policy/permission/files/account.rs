//! Accounting of a tool's additions to a folder against its quota.

use std::fmt;

use super::quota::Quota;
use crate::call::limits::display_bytes;

/// The additions of a tool to a folder so far.
///
/// Never less than the actual growth of the folder since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    quota: Quota,
    bytes: u64,
    entries: u64,
}

/// An exceeded quota, with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaExceeded {
    /// The quota of bytes.
    Bytes(u64),
    /// The quota of directory entries.
    Entries(u64),
}

impl Account {
    /// Creates an empty account.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self { quota, bytes: 0, entries: 0 }
    }

    /// Charges the growth of a file by `bytes`.
    ///
    /// # Errors
    /// If the rest of the quota is smaller. Then nothing is charged.
    pub fn grow(&mut self, bytes: u64) -> Result<(), QuotaExceeded> {
        let limit = self.quota.bytes();
        let sum = self.bytes.checked_add(bytes).filter(|sum| *sum <= limit).ok_or(QuotaExceeded::Bytes(limit))?;
        self.bytes = sum;
        Ok(())
    }

    /// Credits a file that shrank by `bytes`. The balance never falls below zero, so that shrinking earlier contents
    /// adds nothing to the quota.
    pub fn shrink(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Charges one directory entry.
    ///
    /// # Errors
    /// If the quota of entries is used up.
    pub fn add_entry(&mut self) -> Result<(), QuotaExceeded> {
        let limit = self.quota.entries();
        if self.entries >= limit {
            return Err(QuotaExceeded::Entries(limit));
        }
        self.entries += 1;
        Ok(())
    }

    /// Credits one removed directory entry.
    pub fn remove_entry(&mut self) {
        self.entries = self.entries.saturating_sub(1);
    }
}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(limit) => write!(f, "it may add at most {}", display_bytes(*limit)),
            Self::Entries(limit) => write!(f, "it may add at most {limit} files, folders and links"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_stays_within_its_quota() {
        let mut account = Account::new(Quota::new(10, 2).unwrap());
        assert_eq!(account.grow(10), Ok(()));
        assert_eq!(account.grow(1), Err(QuotaExceeded::Bytes(10)));
        assert_eq!(account.grow(u64::MAX), Err(QuotaExceeded::Bytes(10)));
        account.shrink(4);
        assert_eq!(account.grow(4), Ok(()));
        assert_eq!(account.grow(1), Err(QuotaExceeded::Bytes(10)));
        account.shrink(1000);
        assert_eq!(account.grow(11), Err(QuotaExceeded::Bytes(10)), "what was there before is no credit");
        assert_eq!(
            (account.add_entry(), account.add_entry(), account.add_entry()),
            (Ok(()), Ok(()), Err(QuotaExceeded::Entries(2)))
        );
        account.remove_entry();
        assert_eq!(account.add_entry(), Ok(()));
    }
}
