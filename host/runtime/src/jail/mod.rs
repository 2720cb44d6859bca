//! The restrictions of a process that handles untrusted code, which limit the damage if that code escapes the sandbox.
//!
//! A jailed process gains no new privileges, accesses no files but those below the folders that it was passed, opens no
//! network connection, starts no program, and makes only the system calls that running guests requires. The process cannot
//! undo any of this.

mod descriptors;
mod filesystem;
mod resources;
mod system_calls;

use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

pub(crate) use descriptors::leave_inherited_descriptors;
pub(crate) use resources::Resources;
pub(crate) use system_calls::Profile;

/// A folder or file that a jailed process keeps access to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reachable<'fd> {
    pub(crate) file: BorrowedFd<'fd>,
    pub(crate) is_writable: bool,
}

/// The layers of the jail that are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailReport {
    /// Landlock restricts access to files (Linux 5.13 and later, where it is enabled).
    pub landlock: bool,
    /// A seccomp filter restricts system calls.
    pub seccomp: bool,
}

impl JailReport {
    /// Returns whether every layer is in force.
    #[must_use]
    pub fn is_complete(self) -> bool {
        self.landlock && self.seccomp
    }

    /// Returns the layers that are missing, for a message; empty if none is.
    #[must_use]
    pub fn missing(self) -> &'static str {
        match (self.landlock, self.seccomp) {
            (true, true) => "",
            (false, true) => "Landlock",
            (true, false) => "seccomp filters",
            (false, false) => "Landlock and seccomp filters",
        }
    }
}

/// Restricts this process. Landlock does not restrict threads that exist already, so this must come first.
///
/// # Errors
/// If a layer that the kernel supports cannot be put in force. Layers that it lacks are in the report.
pub(crate) fn enter(
    reachable: &[Reachable<'_>],
    resources: &Resources,
    profile: Profile,
) -> Result<JailReport, String> {
    resources.limit().map_err(|error| format!("resource limits cannot be set: {error}"))?;
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("`no_new_privs` cannot be set: {error}"))?;
    let landlock = filesystem::restrict(reachable)?;
    let seccomp = system_calls::restrict(profile)?;
    Ok(JailReport { landlock, seccomp })
}

#[cfg(test)]
mod tests;
