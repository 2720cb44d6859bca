//! The restrictions of a process that handles untrusted code, which limit the damage if that code escapes the sandbox.
//!
//! A jailed process gains no new privileges, accesses no files but those below the folders that it was passed, opens no
//! network connection, starts no program, and makes only the system calls that running guests requires. The process
//! cannot undo any of this.

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
compile_error!(
    "the jail: what takes the place of Landlock, seccomp and resource limits for compiler and worker processes is not written \
     for this system yet"
);

use std::fs::File;

use serde::{Deserialize, Serialize};

pub(crate) use system::{Profile, enter, leave_inherited_descriptors};

/// A folder or file that a jailed process keeps access to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reachable<'a> {
    pub(crate) file: &'a File,
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

/// Limits that the kernel enforces on the process as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resources {
    /// Maximum writable memory, in bytes.
    pub(crate) data: u64,
    /// Maximum address space, in bytes; `None` for no limit.
    pub(crate) address_space: Option<u64>,
    /// Maximum CPU time of all threads together, in seconds; `None` for no limit.
    pub(crate) cpu_seconds: Option<u64>,
    /// Maximum size of a file that is written, in bytes; `None` for no limit.
    pub(crate) file_size: Option<u64>,
    /// Maximum number of open descriptors.
    pub(crate) descriptors: u64,
}

#[cfg(test)]
mod tests;
