//! Bounded sets of label values.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

/// Value of a label for everything beyond its limit.
pub(crate) const OTHER: &str = "other";

/// Outcome of a call that succeeded.
pub(crate) const OK: &str = "ok";

/// The values of one label, up to a limit. Later ones are [`OTHER`]. Those that were seen before are found without a lock.
#[derive(Debug)]
pub(crate) struct LabelValues {
    limit: usize,
    known: ArcSwap<HashSet<Arc<str>>>,
    none: Arc<str>,
    other: Arc<str>,
    /// Held while a value is added.
    adding: Mutex<()>,
}

impl LabelValues {
    pub(crate) fn new(limit: usize) -> Self {
        let none = Arc::from("");
        let other = Arc::from(OTHER);
        Self { limit, known: ArcSwap::default(), none, other, adding: Mutex::default() }
    }

    /// Returns the value itself while there is room for it, and [`OTHER`] otherwise. No value is an empty one.
    pub(crate) fn admit(&self, value: Option<&str>) -> Arc<str> {
        let Some(value) = value else { return Arc::clone(&self.none) };
        let known = self.known.load();
        match known.get(value) {
            Some(known) => Arc::clone(known),
            None if known.len() >= self.limit => Arc::clone(&self.other),
            None => self.add(value),
        }
    }

    fn add(&self, value: &str) -> Arc<str> {
        // No code that holds the lock can panic half-way.
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = HashSet::clone(&self.known.load());
        if let Some(known) = known.get(value) {
            return Arc::clone(known);
        }
        if known.len() >= self.limit {
            return Arc::clone(&self.other);
        }
        let value: Arc<str> = Arc::from(value);
        known.insert(Arc::clone(&value));
        self.known.store(Arc::new(known));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_limit_are_other() {
        let values = LabelValues::new(2);
        let admitted: Vec<_> = ["a", "b", "c", "a"].iter().map(|value| values.admit(Some(value)).to_string()).collect();
        assert_eq!(admitted, ["a", "b", OTHER, "a"]);
        assert_eq!(&*values.admit(None), "");
    }
}
