//! The session that a call of a built-in tool is part of.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::chat::Usage;
use fumehood_core::record::{NullRecorder, Recorder};

use crate::allowance::CallAllowance;

/// The session of an agent that a call is part of, for tools that have sessions of their own.
pub struct CallSession {
    /// The id of the session; empty for a call that no agent makes.
    pub id: String,
    /// The id of the record of the call's start.
    pub cause: Option<String>,
    /// The recorder of the session.
    pub recorder: Arc<dyn Recorder>,
    /// The rest of its budgets; `None` for no limit.
    pub(crate) allowance: Option<Arc<CallAllowance>>,
    /// The account of what was used within the call.
    pub(crate) account: Arc<CallAccount>,
}

impl fmt::Debug for CallSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSession").field("id", &self.id).field("cause", &self.cause).finish_non_exhaustive()
    }
}

impl Default for CallSession {
    /// Creates the session of a call that no agent makes.
    fn default() -> Self {
        let allowance = None;
        let account = Arc::default();
        Self { id: String::new(), cause: None, recorder: Arc::new(NullRecorder), allowance, account }
    }
}

/// Tokens and calls that were used within a call, and count towards the budget of its session.
#[derive(Debug, Default)]
pub(crate) struct CallAccount(Mutex<(Usage, u32)>);

impl CallAccount {
    /// Adds tokens and calls.
    pub(crate) fn add(&self, usage: Usage, calls: u32) {
        let mut total = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        total.0 += usage;
        total.1 = total.1.saturating_add(calls);
    }

    /// Returns what was added since the last time.
    pub(crate) fn take(&self) -> (Usage, u32) {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
