//! Summaries of the latest calls of each session, for prompts of later steps.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::truncate::truncate_text;

/// Maximum number of calls of a session.
const MAX_CALLS: usize = 64;

/// Maximum number of sessions. The one that was added first is removed first.
const MAX_SESSIONS: usize = 1_024;

/// Maximum bytes of the arguments and of the result of a call, each.
const MAX_TEXT_BYTES: usize = 120;

/// A summary of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Episode {
    /// The execution of the loop that made the call.
    pub execution: String,
    /// The step of that execution.
    pub step: u32,
    /// The full name of the tool.
    pub tool: String,
    /// The arguments, truncated.
    pub arguments: String,
    /// `ok`, or the kind of the error.
    pub status: String,
    /// The result or the error, truncated.
    pub result: String,
}

impl Episode {
    /// Truncates arguments and result.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.arguments = truncate_text(&self.arguments, MAX_TEXT_BYTES);
        self.result = truncate_text(&self.result, MAX_TEXT_BYTES);
        self
    }
}

#[derive(Default)]
struct Sessions {
    calls: HashMap<String, VecDeque<Episode>>,
    order: VecDeque<String>,
}

/// The summaries of the latest calls of all sessions.
#[derive(Default)]
pub struct Episodes(Mutex<Sessions>);

impl fmt::Debug for Episodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Episodes").finish_non_exhaustive()
    }
}

impl Episodes {
    /// Adds a call. The oldest call of the session, or the oldest session, is removed if there are too many.
    pub fn add(&self, session: &str, episode: Episode) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !sessions.calls.contains_key(session) {
            if sessions.order.len() >= MAX_SESSIONS
                && let Some(oldest) = sessions.order.pop_front()
            {
                sessions.calls.remove(&oldest);
            }
            sessions.order.push_back(session.to_owned());
        }
        let calls = sessions.calls.entry(session.to_owned()).or_default();
        if calls.len() >= MAX_CALLS {
            calls.pop_front();
        }
        calls.push_back(episode.truncate());
    }

    /// Returns the calls of a session, oldest first.
    #[must_use]
    pub fn for_session(&self, session: &str) -> Vec<Episode> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.calls.get(session).map(|calls| calls.iter().cloned().collect()).unwrap_or_default()
    }

    /// Formats the calls of a session for a prompt, one line for each call.
    #[must_use]
    pub fn to_prompt(&self, session: &str) -> String {
        let line = |episode: Episode| {
            let Episode { step, tool, arguments, status, result, .. } = episode;
            format!("step {step}: {tool}({arguments}) -> {status}: {}", result.replace('\n', " "))
        };
        self.for_session(session).into_iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_calls_sessions_and_bytes() {
        let episodes = Episodes::default();
        let episode = Episode {
            execution: "e".to_owned(),
            step: 1,
            tool: "t".to_owned(),
            arguments: "a".repeat(500),
            status: "ok".to_owned(),
            result: "ä".repeat(500),
        };
        for _ in 0..MAX_CALLS + 1 {
            episodes.add("first", episode.clone());
        }
        assert_eq!(episodes.for_session("first").len(), MAX_CALLS);
        assert!(
            episodes
                .for_session("first")
                .iter()
                .all(|call| call.arguments.len() <= MAX_TEXT_BYTES && call.result.len() <= MAX_TEXT_BYTES)
        );
        for session in 0..MAX_SESSIONS {
            episodes.add(&session.to_string(), episode.clone());
        }
        assert!(episodes.for_session("first").is_empty());
        assert_eq!(episodes.for_session("0").len(), 1);
    }
}
