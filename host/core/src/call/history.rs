//! The history of a session's calls: the tools that ran, in the order of their first calls.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

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
        if !self.contains(tool) {
            self.first.push(PastCall { tool: tool.to_owned(), number });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_first_call_of_each_tool() {
        let history = CallHistory::default();
        assert_eq!((history.start("a"), history.start("b"), history.start("a")), (1, 2, 3));
        let past = |tool: &str, number| PastCall { tool: tool.to_owned(), number };
        assert_eq!(history.past(), [past("a", 1), past("b", 2)]);
        assert!(history.contains("b") && !history.contains("c"));
        let resumed = CallHistory::resumed(3, history.past());
        assert_eq!(resumed.start("c"), 4);
        assert_eq!(resumed.past(), [past("a", 1), past("b", 2), past("c", 4)]);
    }
}
