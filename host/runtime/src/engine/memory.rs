//! One limit over all the memories and tables of a call, and over what the host keeps for its guest.

use wasmtime::ResourceLimiter;

use super::{MAX_CORE_INSTANCES, MAX_MEMORIES, MAX_TABLES};

/// Size of one table element in the host, in bytes.
const ELEMENT_BYTES: usize = size_of::<usize>();

/// A limiter over the sum of all memories and tables of one store, and of what the host keeps for the guest.
///
/// wasmtime's own limits apply to each memory by itself, so many small memories would pass them.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    cap: usize,
    held: usize,
    /// An upper bound of what the host keeps. It is counted exactly only when the bound does not fit.
    kept: usize,
    peak: usize,
    refused: bool,
    kept_too_much: Option<usize>,
}

/// The error that stops a guest for which the host kept too much.
#[derive(Debug, thiserror::Error)]
#[error("the host keeps more for the guest than its memory limit")]
pub(crate) struct KeptTooMuch;

impl MemoryLimiter {
    /// Creates a limiter of `cap` bytes.
    pub(crate) fn new(cap: usize) -> Self {
        Self { cap, held: 0, kept: 0, peak: 0, refused: false, kept_too_much: None }
    }

    /// Returns the maximum size of the memories and tables at one time, in bytes.
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    /// Returns whether a growth beyond the limit was ever refused.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused
    }

    /// Returns whether `bytes` more fit, with the present estimate of what the host keeps.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.held.saturating_add(self.kept).checked_add(bytes).is_some_and(|sum| sum <= self.cap)
    }

    /// Adds bytes that the host may keep from now on, if they fit.
    pub(crate) fn add_kept(&mut self, bytes: usize) -> bool {
        let fits = self.fits(bytes);
        if fits {
            self.kept += bytes;
        }
        fits
    }

    /// Replaces the estimate by a count. Returns whether that is within the limit.
    pub(crate) fn recount_kept(&mut self, kept: usize) -> bool {
        self.kept = kept;
        self.fits(0)
    }

    /// Records that the host kept too much and has released it.
    pub(crate) fn release_kept(&mut self) {
        self.kept_too_much = Some(std::mem::take(&mut self.kept));
    }

    /// Returns the bytes that the host kept when it had to release them.
    pub(crate) fn kept_too_much(&self) -> Option<usize> {
        self.kept_too_much
    }

    fn grow(&mut self, by: usize) -> bool {
        if self.fits(by) {
            self.held += by;
            self.peak = self.peak.max(self.held);
            return true;
        }
        self.refused = true;
        false
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            // The growth fails whatever is returned here, so its bytes must not be counted.
            return Ok(false);
        }
        Ok(self.grow(desired.saturating_sub(current)))
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        Ok(self.grow(desired.saturating_sub(current).saturating_mul(ELEMENT_BYTES)))
    }

    fn instances(&self) -> usize {
        MAX_CORE_INSTANCES as usize
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES as usize
    }

    fn tables(&self) -> usize {
        MAX_TABLES as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 65_536;

    #[test]
    fn memories_and_tables_share_one_limit() {
        let mut limiter = MemoryLimiter::new(2 * PAGE);
        assert!(limiter.memory_growing(0, PAGE, None).unwrap());
        assert!(limiter.table_growing(0, PAGE / ELEMENT_BYTES, None).unwrap());
        assert_eq!(limiter.peak(), 2 * PAGE);
        assert!(!limiter.has_refused());
        assert!(!limiter.memory_growing(0, PAGE, None).unwrap());
        assert!(limiter.has_refused());
    }

    #[test]
    fn memories_and_what_the_host_keeps_share_one_limit() {
        let mut limiter = MemoryLimiter::new(2 * PAGE);
        assert!(limiter.add_kept(PAGE));
        assert!(limiter.memory_growing(0, PAGE, None).unwrap());
        assert!(!limiter.add_kept(1));
        assert_eq!((limiter.peak(), limiter.kept_too_much()), (PAGE, None));
        assert!(limiter.recount_kept(10));
        assert!(limiter.add_kept(PAGE - 10));
        assert!(!limiter.memory_growing(PAGE, PAGE + 1, None).unwrap());
        assert!(!limiter.recount_kept(PAGE + 1));
        limiter.release_kept();
        assert_eq!(limiter.kept_too_much(), Some(PAGE + 1));
    }

    #[test]
    fn does_not_count_growth_past_the_memorys_own_maximum() {
        let mut limiter = MemoryLimiter::new(10 * PAGE);
        assert!(!limiter.memory_growing(PAGE, 3 * PAGE, Some(2 * PAGE)).unwrap());
        assert!(!limiter.has_refused());
        assert_eq!(limiter.peak(), 0);
    }

    #[test]
    fn refuses_amounts_beyond_the_address_space() {
        let mut limiter = MemoryLimiter::new(usize::MAX);
        assert!(limiter.memory_growing(0, PAGE, None).unwrap());
        assert!(!limiter.table_growing(0, usize::MAX, None).unwrap());
    }
}
