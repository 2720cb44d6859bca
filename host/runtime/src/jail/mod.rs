//! The restrictions of a process that handles untrusted code, which limit the damage if that code escapes the sandbox.
//!
//! A jailed process gains no new privileges, accesses no files but those below the folders that it was passed, opens no
//! network connection, starts no program, and makes only the system calls that running guests requires. The process
//! cannot undo any of this.

mod landlock;
mod seccomp;

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Resource, Rlimit};
use serde::{Deserialize, Serialize};

pub(crate) use seccomp::Profile;

/// Standard input, output and error.
const STANDARD_STREAMS: usize = 3;

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

impl Resources {
    fn apply(&self) -> io::Result<()> {
        set(Resource::Data, self.data, self.data)?;
        set(Resource::Core, 0, 0)?;
        set(Resource::Nofile, self.descriptors, self.descriptors)?;
        if let Some(bytes) = self.address_space {
            set(Resource::As, bytes, bytes)?;
        }
        if let Some(bytes) = self.file_size {
            set(Resource::Fsize, bytes, bytes)?;
        }
        if let Some(seconds) = self.cpu_seconds {
            // The signal of the soft limit (`SIGXCPU`) identifies the reason; the hard limit kills.
            set(Resource::Cpu, seconds, seconds.saturating_add(1))?;
        }
        Ok(())
    }
}

/// Sets a limit, but never raises one that is in force.
fn set(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let at_most = |wanted: u64| Some(now.maximum.map_or(wanted, |most| most.min(wanted)));
    rustix::process::setrlimit(resource, Rlimit { current: at_most(soft), maximum: at_most(hard) })?;
    Ok(())
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
    resources.apply().map_err(|error| format!("resource limits cannot be set: {error}"))?;
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("`no_new_privs` cannot be set: {error}"))?;
    let landlock = landlock::restrict(reachable)?;
    let seccomp = seccomp::restrict(profile)?;
    Ok(JailReport { landlock, seccomp })
}

/// Drops descriptors that the host itself inherited without `FD_CLOEXEC`, which arrive here too: if there are any, it
/// executes this program once more with the same arguments. Must be the first step of the process.
///
/// # Errors
/// If the program cannot be executed once more. If it can, this function does not return.
pub(crate) fn leave_inherited_descriptors() -> io::Result<()> {
    // Reading the list opens one more.
    let open = std::fs::read_dir("/proc/self/fd")?.count();
    if open <= STANDARD_STREAMS + 1 {
        return Ok(());
    }
    close_fds::set_fds_cloexec(3, &[]);
    let error = Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).exec();
    Err(io::Error::other(format!("the process cannot be started once more: {error}")))
}

#[cfg(test)]
mod tests;
