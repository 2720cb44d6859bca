//! Tools that answer so quickly that their calls begin on the thread of an event loop.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fumehood_core::call::result::CallResult;

/// Longest time in the sandbox of a call that counts as quick.
const MAX_QUICK: Duration = Duration::from_micros(250);

/// The tools whose last call was quick. To hand a call to another thread and back takes longer than most calls do, and a call that
/// takes longer than that must not hold up the event loop. Nothing but the last call says which one a tool's next call is.
#[derive(Debug, Default)]
pub(crate) struct QuickTools(Mutex<HashSet<String>>);

impl QuickTools {
    /// Returns whether the last call of this tool was quick.
    pub(crate) fn contains(&self, tool: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    /// Notes that a call of this tool did not end within its first slice.
    pub(crate) fn remove(&self, tool: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(tool);
    }

    /// Notes the time that a call took. One that never came to the sandbox says nothing.
    pub(crate) fn record(&self, result: &CallResult) {
        let took = result.metadata.duration;
        if took.is_zero() {
            return;
        }
        let mut tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if took > MAX_QUICK {
            tools.remove(&result.tool);
        } else if !tools.contains(&result.tool) {
            tools.insert(result.tool.clone());
        }
    }

    /// Forgets all tools, because some are gone.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
