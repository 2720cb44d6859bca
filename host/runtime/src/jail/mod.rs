//! The restrictions of a process that handles untrusted code, which limit the damage if that code escapes the sandbox.
//!
//! A jailed process has and gains no privileges, reaches no files but those below the folders that it was passed, opens
//! no network connection, starts no program, shares no memory, and makes only the system calls that running guests
//! requires, with the arguments that it requires. The process cannot undo any of this.

pub(crate) mod program;
#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
compile_error!(
    "the jail: alternatives to Landlock, seccomp and resource limits for compiler and worker processes are not \
     implemented for this system"
);

use std::fs::File;

use serde::{Deserialize, Serialize};

pub(crate) use system::{Profile, end_setup, enter, leave_inherited_descriptors, lower_capabilities};

/// The folders and files that a jailed process keeps access to.
#[derive(Debug, Default)]
pub(crate) struct Reachable<'a> {
    pub(crate) folders: Vec<ReachableFolder<'a>>,
    /// Files that can be opened once more, for reading.
    pub(crate) files: Vec<&'a File>,
}

/// A folder that a jailed process keeps access to.
#[derive(Debug)]
pub(crate) struct ReachableFolder<'a> {
    /// Its descriptor, which the jail may replace by another one of the same folder.
    pub(crate) file: &'a mut File,
    pub(crate) is_writable: bool,
}

/// The layers of the jail that are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailReport {
    /// Landlock restricts access to files (Linux 5.13 and later, where it is enabled).
    pub landlock: bool,
    /// A seccomp filter restricts system calls.
    pub seccomp: bool,
    /// No path leads out of the granted folders, also not to the size, the times or the target of what is there: the
    /// process has a mount tree of its own, or no system call that takes a path. Without it, only contents are protected.
    pub paths: bool,
}

impl JailReport {
    /// Returns whether the layers are in force that [`Workers::require_jail`](crate::Workers::require_jail) asks for:
    /// Landlock and seccomp filters.
    #[must_use]
    pub fn is_complete(self) -> bool {
        self.landlock && self.seccomp
    }

    /// Returns the layers that are missing, for a message; empty if none is.
    #[must_use]
    pub fn missing(self) -> &'static str {
        match (self.landlock, self.seccomp, self.paths) {
            (true, true, true) => "",
            (true, true, false) => "mount namespaces for this user",
            (false, true, true) => "Landlock",
            (false, true, false) => "Landlock and mount namespaces for this user",
            (true, false, true) => "seccomp filters",
            (true, false, false) => "seccomp filters and mount namespaces for this user",
            (false, false, true) => "Landlock and seccomp filters",
            (false, false, false) => "Landlock, seccomp filters and mount namespaces for this user",
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
