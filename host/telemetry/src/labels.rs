//! Bounded sets of label values.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

/// Value of a label for everything beyond its limit.
pub(crate) const OTHER: &str = "other";

/// Outcome of a call that succeeded.
pub(crate) const OK: &str = "ok";

/// The values of one label, up to a limit. Later ones are [`OTHER`].
#[derive(Debug)]
pub(crate) struct LabelValues {
    limit: usize,
    known: RwLock<HashSet<Arc<str>>>,
}

impl LabelValues {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, known: RwLock::default() }
    }

    /// Returns the value itself while there is room for it, and [`OTHER`] otherwise.
    pub(crate) fn admit(&self, value: &str) -> Arc<str> {
        // No code that holds the lock can panic half-way.
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(value) {
            return Arc::clone(known);
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.limit && !known.contains(value) {
            return Arc::from(OTHER);
        }
        let value: Arc<str> = Arc::from(value);
        known.insert(Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_limit_are_other() {
        let values = LabelValues::new(2);
        let admitted: Vec<_> = ["a", "b", "c", "a"].iter().map(|value| values.admit(value).to_string()).collect();
        assert_eq!(admitted, ["a", "b", OTHER, "a"]);
    }
}
