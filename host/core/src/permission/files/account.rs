//! What a tool has added to a folder so far, beside what it may.

use std::fmt;

use super::quota::Quota;
use crate::limits::display_bytes;

/// What a tool has added to a folder so far. It is never less than what is really there more than at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    quota: Quota,
    bytes: u64,
    entries: u64,
}

/// A quota that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaExceeded {
    /// Of so many bytes.
    Bytes(u64),
    /// Of so many names.
    Entries(u64),
}

impl Account {
    /// Nothing so far.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self { quota, bytes: 0, entries: 0 }
    }

    /// A file grows by so many bytes.
    ///
    /// # Errors
    /// If the quota has less left. Then nothing is charged.
    pub fn grow(&mut self, bytes: u64) -> Result<(), QuotaExceeded> {
        let most = self.quota.bytes();
        let sum = self.bytes.checked_add(bytes).filter(|sum| *sum <= most).ok_or(QuotaExceeded::Bytes(most))?;
        self.bytes = sum;
        Ok(())
    }

    /// A file shrank by so many bytes. Shrinking what was there before gives no more than a clean account.
    pub fn shrink(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// One more name.
    ///
    /// # Errors
    /// If the quota has none left.
    pub fn add_entry(&mut self) -> Result<(), QuotaExceeded> {
        let most = self.quota.entries();
        if self.entries >= most {
            return Err(QuotaExceeded::Entries(most));
        }
        self.entries += 1;
        Ok(())
    }

    /// One name less.
    pub fn remove_entry(&mut self) {
        self.entries = self.entries.saturating_sub(1);
    }
}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(most) => write!(f, "it may add {} and no more", display_bytes(*most)),
            Self::Entries(most) => write!(f, "it may add {most} files, folders and links and no more"),
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
