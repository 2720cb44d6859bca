//! What a tool may know of the secrets that it was granted: that they are there.
//!
//! The host puts a secret into those of the tool's HTTP requests that the operator meant it for. It never comes into a tool.

use crate::host;

/// Whether this tool was granted a secret of that name, so that its requests carry it. Of a secret that was granted to
/// others only, or that there is none of, the answer is the same: no.
///
/// A tool that can say better than a server that it needs one says so by [`ToolError::denied`](crate::ToolError::denied).
#[must_use]
pub fn exists(name: &str) -> bool {
    host::secret_exists(name)
}
