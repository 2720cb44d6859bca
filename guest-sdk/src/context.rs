//! What a tool may know about the call that it serves.
//!
//! Natively, outside of [`testing`](crate::testing), there is no call: ids and names are empty and an hour is left.

use std::time::Duration;

use crate::host;

/// The id of this call. During `describe` it is empty.
#[must_use]
pub fn call_id() -> String {
    host::call_id()
}

/// The name of the tool that is called, as its definition has it. During `describe` it is empty.
#[must_use]
pub fn tool_name() -> String {
    host::tool_name()
}

/// How long is left until the deadline, in whole milliseconds, rounded down. At zero the call is about to be stopped,
/// without a chance to clean up.
#[must_use]
pub fn remaining() -> Duration {
    Duration::from_millis(host::remaining_ms())
}

/// On whose behalf the call runs, if the host says so. It comes from the host's own session, never from arguments.
#[must_use]
pub fn actor() -> Option<String> {
    host::actor()
}

/// A read-only snapshot of the agent's state. `None` if there is no state, or if this tool was not granted it; a tool
/// cannot tell these apart.
#[must_use]
pub fn state() -> Option<serde_json::Value> {
    serde_json::from_str(&host::state()?).ok()
}
