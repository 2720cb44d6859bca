//! One limit over all the memories and tables of a call.

use wasmtime::ResourceLimiter;

use super::{MAX_CORE_INSTANCES, MAX_MEMORIES, MAX_TABLES};

/// Size of one table element in the host, in bytes.
const ELEMENT_BYTES: usize = size_of::<usize>();

/// A limiter over the sum of all memories and tables of one store.
///
/// wasmtime's own limits apply to each memory by itself, so many small memories would pass them.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    cap: usize,
    held: usize,
    peak: usize,
    refused: bool,
}

impl MemoryLimiter {
    /// Creates a limiter of `cap` bytes.
    pub(crate) fn new(cap: usize) -> Self {
        Self { cap, held: 0, peak: 0, refused: false }
    }

    /// Returns the maximum number of bytes that were held at once.
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    /// Returns whether a growth beyond the limit was ever refused.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused
    }

    fn grow(&mut self, by: usize) -> bool {
        match self.held.checked_add(by) {
            Some(held) if held <= self.cap => {
                self.held = held;
                self.peak = self.peak.max(held);
                true
            }
            _ => {
                self.refused = true;
                false
            }
        }
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
