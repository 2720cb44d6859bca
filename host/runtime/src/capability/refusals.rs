//! What a call tried that it was not granted.

use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::permission::Refusal;

/// Refusals of one call that are kept; a tool that goes on trying only adds to the same story.
const KEPT: usize = 16;

/// The refusals of one call. Clones are the same list.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<Vec<Refusal>>>);

impl Refusals {
    /// Keeps a refusal, unless the same one, or enough others, are kept already.
    pub(crate) fn add(&self, refusal: Refusal) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT && !kept.contains(&refusal) {
            kept.push(refusal);
        }
    }

    /// What was kept, in the order in which it was tried.
    pub(crate) fn list(&self) -> Vec<Refusal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
