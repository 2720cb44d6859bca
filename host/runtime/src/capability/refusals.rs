//! What a call tried that it was not granted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::permission::Refusal;

/// Refusals of one call that are kept; a tool that goes on trying only adds to the same story.
const KEPT: usize = 16;

/// The refusals of one call, the allowances that it used up, and what it missed. Clones are the same lists.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<Lists>>);

#[derive(Default)]
struct Lists {
    refused: Vec<Refusal>,
    used_up: Vec<String>,
    missed: Vec<Refusal>,
}

impl Refusals {
    /// Keeps a refusal, unless the same one, or enough others, are kept already.
    pub(crate) fn add(&self, refusal: Refusal) {
        keep(&mut self.lists().refused, refusal);
    }

    /// Keeps the sentence about an allowance of a granted power that was used up.
    pub(crate) fn used_up(&self, allowance: String) {
        keep(&mut self.lists().used_up, allowance);
    }

    /// Keeps what the tool looked for and does not have. Language runtimes look whether or not the tool needs it, so that
    /// it only counts if the tool itself says that it was denied.
    pub(crate) fn missed(&self, refusal: Refusal) {
        keep(&mut self.lists().missed, refusal);
    }

    /// The same as refusals, if there are no others.
    pub(crate) fn count_missed(&self) {
        let lists = &mut *self.lists();
        if lists.refused.is_empty() {
            lists.refused = std::mem::take(&mut lists.missed);
        }
    }

    /// The allowances that were used up.
    pub(crate) fn exhausted(&self) -> Vec<String> {
        self.lists().used_up.clone()
    }

    /// What was kept, in the order in which it was tried.
    pub(crate) fn list(&self) -> Vec<Refusal> {
        self.lists().refused.clone()
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep<T: PartialEq>(kept: &mut Vec<T>, one: T) {
    if kept.len() < KEPT && !kept.contains(&one) {
        kept.push(one);
    }
}
