//! The history of a session's calls: the tools that ran, in the order of their first calls.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Maximum number of tools of a history.
const MAX_TOOLS: usize = 4096;
/// The entry that stands for all further tools. No tool has this name, so nothing is known of its data.
const FURTHER_TOOLS: &str = "(further tools)";
/// Maximum number of callers that have a history of their own.
const MAX_CALLERS: usize = 4096;

/// The first call of a tool in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastCall {
    /// The full name of the tool.
    pub tool: String,
    /// The number of the call in its session, from 1.
    pub number: u64,
}

/// The tools that ran in a session so far, in the order of their first calls. Shared by all who make its calls.
///
/// A tool is part of it from the start of its first call, because a call that is under way, fails or is cancelled may
/// have read what a finished one reads.
///
/// ```
/// use fumehood_core::call::history::CallHistory;
///
/// let history = CallHistory::default();
/// for tool in ["mail__read", "web__search", "mail__read"] {
///     history.start(tool);
/// }
/// assert!(history.contains("mail__read") && !history.contains("mail__send"));
/// // A saved session begins with the first call of each tool.
/// let resumed = CallHistory::resumed(3, history.past());
/// assert_eq!(resumed.start("mail__send"), 4);
/// ```
#[derive(Debug, Default)]
pub struct CallHistory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    calls: u64,
    first: Vec<PastCall>,
}

impl CallHistory {
    /// Creates the history of a session that made this number of calls, the first ones of each tool being `past`.
    #[must_use]
    pub fn resumed(calls: u64, past: Vec<PastCall>) -> Self {
        Self(Mutex::new(State { calls, first: past }))
    }

    /// Adds a call of this tool, which starts now. Returns its number.
    pub fn start(&self, tool: &str) -> u64 {
        let mut state = self.lock();
        state.calls = state.calls.saturating_add(1);
        let number = state.calls;
        state.add(tool, number);
        number
    }

    /// Counts a call that reads nothing itself, such as the start of a program.
    pub fn count(&self) {
        let mut state = self.lock();
        state.calls = state.calls.saturating_add(1);
    }

    /// Adds a call that has a number already, in another history of the same session.
    pub fn add(&self, tool: &str, number: u64) {
        self.lock().add(tool, number);
    }

    /// Returns whether this tool was called.
    #[must_use]
    pub fn contains(&self, tool: &str) -> bool {
        self.lock().contains(tool)
    }

    /// Returns the first call of each tool, in order.
    #[must_use]
    pub fn past(&self) -> Vec<PastCall> {
        self.lock().first.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned history is consistent: every change is one operation.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn contains(&self, tool: &str) -> bool {
        self.first.iter().any(|past| past.tool == tool)
    }

    fn add(&mut self, tool: &str, number: u64) {
        if self.contains(tool) {
            return;
        }
        match self.first.len() {
            // What is left out must not look as if it had not been called.
            MAX_TOOLS.. => {}
            len if len + 1 == MAX_TOOLS => self.first.push(PastCall { tool: FURTHER_TOOLS.to_owned(), number }),
            _ => self.first.push(PastCall { tool: tool.to_owned(), number }),
        }
    }
}

/// The histories of callers without sessions, one for each.
///
/// None is ever forgotten, because a caller without its history would seem to have read nothing. Callers beyond a maximum
/// number share one history.
pub struct CallHistories<K>(Mutex<HashMap<K, Arc<CallHistory>>>, Arc<CallHistory>);

impl<K> Default for CallHistories<K> {
    fn default() -> Self {
        Self(Mutex::default(), Arc::default())
    }
}

impl<K> fmt::Debug for CallHistories<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallHistories").finish_non_exhaustive()
    }
}

impl<K: Eq + Hash> CallHistories<K> {
    /// Returns the history of a caller.
    pub fn of(&self, caller: K) -> Arc<CallHistory> {
        let mut histories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match histories.get(&caller) {
            Some(history) => Arc::clone(history),
            None if histories.len() >= MAX_CALLERS => Arc::clone(&self.1),
            None => Arc::clone(histories.entry(caller).or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_beyond_the_maximum_are_unknown_and_not_forgotten() {
        let history = CallHistory::default();
        for number in 0..2 * MAX_TOOLS {
            history.start(&number.to_string());
        }
        let past = history.past();
        assert_eq!((past.len(), past.last().unwrap().tool.as_str()), (MAX_TOOLS, FURTHER_TOOLS));
    }

    #[test]
    fn callers_beyond_the_maximum_share_a_history() {
        let histories = CallHistories::default();
        let first = histories.of(0);
        first.start("a");
        assert!(histories.of(0).contains("a") && !histories.of(1).contains("a"));
        for caller in 0..2 * MAX_CALLERS {
            histories.of(caller);
        }
        assert!(Arc::ptr_eq(&histories.of(0), &first), "it is not forgotten");
        histories.of(MAX_CALLERS).start("b");
        assert!(histories.of(MAX_CALLERS + 1).contains("b") && !histories.of(0).contains("b"));
    }

    #[test]
    fn keeps_the_first_call_of_each_tool() {
        fn past(tool: &str, number: u64) -> PastCall {
            PastCall { tool: tool.to_owned(), number }
        }

        let history = CallHistory::default();
        assert_eq!((history.start("a"), history.start("b"), history.start("a")), (1, 2, 3));
        assert_eq!(history.past(), [past("a", 1), past("b", 2)]);
        assert!(history.contains("b") && !history.contains("c"));
        let resumed = CallHistory::resumed(3, history.past());
        assert_eq!(resumed.start("c"), 4);
        assert_eq!(resumed.past(), [past("a", 1), past("b", 2), past("c", 4)]);
    }
}
