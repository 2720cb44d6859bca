//! The process that made a host and its operations. Their threads exist in no other, so that in a forked one nothing would ever end.

use pyo3::prelude::*;

use crate::error::HostError;

/// The process in which something was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerProcess(u32);

impl Default for OwnerProcess {
    fn default() -> Self {
        Self::this()
    }
}

impl OwnerProcess {
    /// Returns this process.
    pub(crate) fn this() -> Self {
        Self(std::process::id())
    }

    /// Returns whether this is still that process.
    pub(crate) fn is_this(self) -> bool {
        self.0 == std::process::id()
    }

    /// Checks that this is still that process. Locks are not to be touched before: a thread that was not forked may hold them.
    ///
    /// # Errors
    /// In a process that was forked from it.
    pub(crate) fn check(self) -> PyResult<()> {
        if self.is_this() {
            Ok(())
        } else {
            Err(HostError::new_err(
                "this host was created before this process was forked, and its threads do not exist here; create a \
                 host after the fork",
            ))
        }
    }
}
