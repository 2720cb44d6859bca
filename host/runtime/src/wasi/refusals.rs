//! The record of what a call tried that it was not granted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::policy::permission::Refusal;

use super::guest_output::cut_to;

/// Maximum number of entries kept in each list of one call. A tool that goes on trying adds nothing new.
pub(crate) const MAX_REFUSALS: usize = 16;
/// Maximum size of a text in an entry, in bytes. A path may have 4 KiB.
const MAX_TEXT_BYTES: usize = 8 << 10;

/// The refusals of one call, the allowances that it used up, and the powers that it looked for in vain. Clones share
/// the lists.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<Lists>>);

#[derive(Default)]
struct Lists {
    refused: Vec<Refusal>,
    exhausted: Vec<String>,
    missing: Vec<Refusal>,
}

impl Refusals {
    /// Adds a refusal, unless it is in the list already or the list is full.
    pub(crate) fn add(&self, refusal: Refusal) {
        push_unique(&mut self.lists().refused, cut(refusal));
    }

    /// Adds the description of an allowance of a granted power that was used up.
    pub(crate) fn add_exhausted(&self, allowance: String) {
        push_unique(&mut self.lists().exhausted, cut_to(&allowance, MAX_TEXT_BYTES));
    }

    /// Adds something that the tool looked for and does not have. Language runtimes look for it even if the tool does
    /// not need it, so it counts only if the tool itself reports that it was denied.
    pub(crate) fn add_missing(&self, refusal: Refusal) {
        push_unique(&mut self.lists().missing, cut(refusal));
    }

    /// Turns the missing powers into refusals, if there are no other refusals.
    pub(crate) fn promote_missing(&self) {
        let lists = &mut *self.lists();
        if lists.refused.is_empty() {
            lists.refused = std::mem::take(&mut lists.missing);
        }
    }

    /// Returns the refusals and the allowances that were used up, in the order of the attempts.
    pub(crate) fn to_lists(&self) -> (Vec<Refusal>, Vec<String>) {
        let lists = self.lists();
        (lists.refused.clone(), lists.exhausted.clone())
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Truncates the texts of a refusal, which name what the guest tried in the guest's own words.
fn cut(refusal: Refusal) -> Refusal {
    Refusal {
        power: refusal.power,
        tried: cut_to(&refusal.tried, MAX_TEXT_BYTES),
        because: cut_to(&refusal.because, MAX_TEXT_BYTES),
        allow: refusal.allow.map(|line| cut_to(&line, MAX_TEXT_BYTES)),
    }
}

fn push_unique<T: PartialEq>(entries: &mut Vec<T>, entry: T) {
    if entries.len() < MAX_REFUSALS && !entries.contains(&entry) {
        entries.push(entry);
    }
}
