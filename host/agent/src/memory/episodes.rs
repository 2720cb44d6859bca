//! A short account of the latest calls of each session, for later steps to look back on.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::truncate::within;

/// Calls of a session that are remembered.
const CALLS: usize = 64;

/// Sessions that are remembered; the one that was forgotten about the longest goes first.
const SESSIONS: usize = 1_024;

/// Bytes of arguments, and of a result, that are remembered.
const BYTES: usize = 120;

/// One call in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Episode {
    /// The execution of the loop that made it.
    pub execution: String,
    /// The step of that execution.
    pub step: u32,
    /// The full name of the tool.
    pub tool: String,
    /// The arguments, shortened.
    pub arguments: String,
    /// `ok`, or the kind of the error.
    pub status: String,
    /// The result or the error, shortened.
    pub result: String,
}

impl Episode {
    /// Shortens what is too long.
    #[must_use]
    pub fn condensed(mut self) -> Self {
        self.arguments = within(&self.arguments, BYTES);
        self.result = within(&self.result, BYTES);
        self
    }
}

#[derive(Default)]
struct Sessions {
    calls: HashMap<String, VecDeque<Episode>>,
    order: VecDeque<String>,
}

/// The accounts of all sessions.
#[derive(Default)]
pub struct Episodes(Mutex<Sessions>);

impl Episodes {
    /// Remembers a call.
    pub fn add(&self, session: &str, episode: Episode) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !sessions.calls.contains_key(session) {
            if sessions.order.len() >= SESSIONS
                && let Some(oldest) = sessions.order.pop_front()
            {
                sessions.calls.remove(&oldest);
            }
            sessions.order.push_back(session.to_owned());
        }
        let calls = sessions.calls.entry(session.to_owned()).or_default();
        if calls.len() >= CALLS {
            calls.pop_front();
        }
        calls.push_back(episode.condensed());
    }

    /// The calls of a session, oldest first.
    #[must_use]
    pub fn of(&self, session: &str) -> Vec<Episode> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.calls.get(session).map(|calls| calls.iter().cloned().collect()).unwrap_or_default()
    }

    /// The same as text, one line for each call, for a prompt.
    #[must_use]
    pub fn told(&self, session: &str) -> String {
        let line = |episode: Episode| {
            let Episode { step, tool, arguments, status, result, .. } = episode;
            format!("step {step}: {tool}({arguments}) -> {status}: {}", result.replace('\n', " "))
        };
        self.of(session).into_iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_bounded_in_every_direction() {
        let episodes = Episodes::default();
        let episode = Episode {
            execution: "e".to_owned(),
            step: 1,
            tool: "t".to_owned(),
            arguments: "a".repeat(500),
            status: "ok".to_owned(),
            result: "ä".repeat(500),
        };
        for _ in 0..CALLS + 1 {
            episodes.add("first", episode.clone());
        }
        assert_eq!(episodes.of("first").len(), CALLS);
        assert!(episodes.of("first").iter().all(|call| call.arguments.len() <= BYTES && call.result.len() <= BYTES));
        for session in 0..SESSIONS {
            episodes.add(&session.to_string(), episode.clone());
        }
        assert!(episodes.of("first").is_empty());
        assert_eq!(episodes.of("0").len(), 1);
    }
}
