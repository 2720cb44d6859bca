//! What a call tried that it was not granted.

use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::permission::Refusal;

/// Refusals of one call that are kept; a tool that goes on trying only adds to the same story.
const KEPT: usize = 16;

/// The refusals of one call, and the allowances that it used up. Clones are the same lists.
#[derive(Clone, Default)]
pub(crate) struct Refusals {
    refused: Arc<Mutex<Vec<Refusal>>>,
    used_up: Arc<Mutex<Vec<String>>>,
}

impl Refusals {
    /// Keeps a refusal, unless the same one, or enough others, are kept already.
    pub(crate) fn add(&self, refusal: Refusal) {
        keep(&self.refused, refusal);
    }

    /// Keeps the sentence about an allowance of a granted power that was used up.
    pub(crate) fn used_up(&self, allowance: String) {
        keep(&self.used_up, allowance);
    }

    /// The allowances that were used up.
    pub(crate) fn exhausted(&self) -> Vec<String> {
        self.used_up.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was kept, in the order in which it was tried.
    pub(crate) fn list(&self) -> Vec<Refusal> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn keep<T: PartialEq>(kept: &Mutex<Vec<T>>, one: T) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() < KEPT && !kept.contains(&one) {
        kept.push(one);
    }
}
