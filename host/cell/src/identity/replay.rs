//! Counters that were received, so that no frame counts twice (RFC 6479).

/// Number of counters that may arrive out of order.
const WINDOW: u64 = 2048;
/// Bits of a word.
const BITS: u64 = 64;
/// Words of the window, with one more that is cleared as it moves.
const WORDS: usize = 33;

/// The newest counter that was received, and those before it within a window.
#[derive(Debug)]
pub(super) struct ReplayWindow {
    newest: u64,
    words: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { newest: 0, words: [0; WORDS] }
    }
}

impl ReplayWindow {
    /// Notes a counter. Returns whether it is new; one that is older than the window counts as received.
    pub(super) fn accept(&mut self, counter: u64) -> bool {
        if counter == 0 || counter.saturating_add(WINDOW) <= self.newest {
            return false;
        }
        let word = counter / BITS;
        let newest = self.newest / BITS;
        for passed in (newest.saturating_add(1)..=word).take(WORDS) {
            if let Some(place) = self.word(passed) {
                *place = 0;
            }
        }
        // More words were passed than there are: those left out have the same places.
        self.newest = self.newest.max(counter);
        let bit = 1_u64 << (counter % BITS);
        let Some(place) = self.word(word) else { return false };
        let is_new = *place & bit == 0;
        *place |= bit;
        is_new
    }

    fn word(&mut self, index: u64) -> Option<&mut u64> {
        let words = u64::try_from(WORDS).ok()?;
        self.words.get_mut(usize::try_from(index.checked_rem(words)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn accepts_each_counter_once_in_any_order() {
        let mut window = ReplayWindow::default();
        assert!(!window.accept(0));
        for counter in [1, 3, 2, 64, 63, 65, 2100, 100, 2099] {
            assert!(window.accept(counter), "{counter}");
            assert!(!window.accept(counter), "{counter}");
        }
        assert!(!window.accept(52), "older than the window");
        assert!(window.accept(u64::MAX / 2));
        assert!(!window.accept(2101));
        assert!(window.accept(u64::MAX / 2 - 2000));
    }

    #[test]
    fn agrees_with_a_set_of_all_counters() {
        let mut window = ReplayWindow::default();
        let mut seen = BTreeSet::new();
        let mut newest = 0_u64;
        let mut random = 9_u64;
        for _ in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let counter = (newest + 40).saturating_sub((random >> 33) % 3_000).max(1);
            let expected = counter + WINDOW > newest && seen.insert(counter);
            assert_eq!(window.accept(counter), expected, "{counter} after {newest}");
            newest = newest.max(counter);
        }
    }
}
