//! The presence of granted secrets.
//!
//! The host adds a secret to those HTTP requests of the tool that the operator selected. Its value never enters a tool.

use crate::host;

/// Returns whether this tool was granted a secret with this name, so that its requests carry it. The result is the same
/// for a secret that does not exist and one that was granted to other tools only: `false`.
///
/// A tool without a secret that it needs can return [`ToolError::denied`](crate::ToolError::denied), with a better
/// message than the server's.
#[must_use]
pub fn exists(name: &str) -> bool {
    host::secret_exists(name)
}
