//! Information about the current call.
//!
//! Natively, outside of [`testing`](crate::testing), there is no call: ids and names are empty, and one hour is left.

use std::time::Duration;

use crate::host;

/// Returns the id of this call. During `describe` it is empty.
#[must_use]
pub fn call_id() -> String {
    host::call_id()
}

/// Returns the name of the called tool, as in its definition. During `describe` it is empty.
#[must_use]
pub fn tool_name() -> String {
    host::tool_name()
}

/// Returns the time until the deadline, rounded down to whole milliseconds. At zero the call is about to be stopped,
/// without a chance to clean up.
#[must_use]
pub fn remaining() -> Duration {
    Duration::from_millis(host::remaining_ms())
}

/// Returns the actor on whose behalf the call runs, if the host provides one. It comes from the host's session, never
/// from arguments.
#[must_use]
pub fn actor() -> Option<String> {
    host::actor()
}

/// Returns a read-only snapshot of the agent's state. `None` if there is no state, or if this tool was not granted it;
/// the two cannot be distinguished.
#[must_use]
pub fn state() -> Option<serde_json::Value> {
    serde_json::from_str(&host::state()?).ok()
}
