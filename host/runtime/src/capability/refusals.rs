//! The record of what a call tried that it was not granted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::permission::Refusal;

/// Maximum number of entries kept in each list of one call. A tool that goes on trying adds nothing new.
const MAX_ENTRIES: usize = 16;

/// The refusals of one call, the allowances that it used up, and the powers that it looked for in vain. Clones share
/// the lists.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<Lists>>);

#[derive(Default)]
struct Lists {
    refused: Vec<Refusal>,
    used_up: Vec<String>,
    missed: Vec<Refusal>,
}

impl Refusals {
    /// Adds a refusal, unless it is in the list already or the list is full.
    pub(crate) fn add(&self, refusal: Refusal) {
        keep(&mut self.lists().refused, refusal);
    }

    /// Adds the description of an allowance of a granted power that was used up.
    pub(crate) fn used_up(&self, allowance: String) {
        keep(&mut self.lists().used_up, allowance);
    }

    /// Adds something that the tool looked for and does not have. Language runtimes look for it even if the tool does not
    /// need it, so it counts only if the tool itself reports that it was denied.
    pub(crate) fn missed(&self, refusal: Refusal) {
        keep(&mut self.lists().missed, refusal);
    }

    /// Turns the missing powers into refusals, if there are no other refusals.
    pub(crate) fn count_missed(&self) {
        let lists = &mut *self.lists();
        if lists.refused.is_empty() {
            lists.refused = std::mem::take(&mut lists.missed);
        }
    }

    /// Returns the allowances that were used up.
    pub(crate) fn exhausted(&self) -> Vec<String> {
        self.lists().used_up.clone()
    }

    /// Returns the refusals in the order of the attempts.
    pub(crate) fn list(&self) -> Vec<Refusal> {
        self.lists().refused.clone()
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep<T: PartialEq>(kept: &mut Vec<T>, one: T) {
    if kept.len() < MAX_ENTRIES && !kept.contains(&one) {
        kept.push(one);
    }
}
