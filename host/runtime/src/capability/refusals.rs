//! What a call tried that it was not granted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::permission::Refusal;

/// Refusals of one call that are kept; a tool that goes on trying only adds to the same story.
const KEPT: usize = 16;

/// The refusals of one call. Clones are the same lists.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    refused: Vec<Refusal>,
    exhausted: Vec<Refusal>,
}

impl Refusals {
    /// Keeps a refusal, unless the same one, or enough others, are kept already.
    pub(crate) fn add(&self, refusal: Refusal) {
        keep(&mut self.kept().refused, refusal);
    }

    /// Keeps, in the same way, what went beyond an allowance.
    pub(crate) fn exhausted(&self, refusal: Refusal) {
        keep(&mut self.kept().exhausted, refusal);
    }

    /// What was kept, in the order in which it was tried.
    pub(crate) fn list(&self) -> Vec<Refusal> {
        self.kept().refused.clone()
    }

    /// What went beyond an allowance, in the order in which it was tried.
    pub(crate) fn list_exhausted(&self) -> Vec<Refusal> {
        self.kept().exhausted.clone()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep(kept: &mut Vec<Refusal>, refusal: Refusal) {
    if kept.len() < KEPT && !kept.contains(&refusal) {
        kept.push(refusal);
    }
}
