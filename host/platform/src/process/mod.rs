//! Processes that end together: with their parent, or as a group.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
compile_error!("processes: ending a process together with its parent is not implemented for this system");

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::process::{Command, ExitStatus};

/// The way in which a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessEnd {
    /// With an exit code.
    Code(i32),
    /// The system ended it, because it had used up its CPU time.
    CpuTime,
    /// The system ended it, because a file became larger than allowed.
    FileSize,
    /// The system ended it for a system call that a filter forbids.
    ForbiddenCall,
    /// Another signal, by its number.
    Signal(i32),
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::CpuTime => f.write_str("the limit on its CPU time"),
            Self::FileSize => f.write_str("the limit on the size of a file"),
            Self::ForbiddenCall => f.write_str("a filter of system calls (SIGSYS)"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

impl From<ExitStatus> for ProcessEnd {
    fn from(status: ExitStatus) -> Self {
        system::end_of(status)
    }
}

/// Makes the system kill this process when the thread that started it ends.
///
/// # Errors
/// If the system refuses that.
pub fn end_with_parent() -> io::Result<()> {
    system::end_with_parent()
}

/// Like [`end_with_parent`], and fails if the process that started this one is not `parent` any more.
///
/// # Errors
/// If the system refuses that, or the parent is gone.
pub fn end_with_parent_process(parent: u32) -> io::Result<()> {
    system::end_with_parent_process(parent)
}

/// Becomes another program. Returns only on failure.
#[must_use]
pub fn replace_with(program: OsString, arguments: impl IntoIterator<Item = OsString>) -> io::Error {
    system::replace_with(Command::new(program).args(arguments))
}

/// Makes the process of a command lead a group of its own, which [`kill_group`] ends as a whole and which Ctrl-C in a
/// terminal does not reach.
pub fn lead_group(command: &mut Command) -> &mut Command {
    system::lead_group(command)
}

/// Asks a process to end (`SIGTERM`). It must not have been waited for.
pub fn terminate(process: u32) {
    system::terminate(process);
}

/// Sends a signal, by its number, to a process that must not have been waited for. Does nothing for numbers that are none.
pub fn send_signal(process: u32, number: i32) {
    system::send_signal(process, number);
}

/// Kills a process that leads a group, and the whole group. The process must not have been waited for: after that, its
/// number may belong to another one. Does nothing if all of the group has ended.
pub fn kill_group(process: u32) {
    system::kill_group(process);
}

/// Waits until a child has ended, without collecting its exit status: until that is done, its number stays its own.
///
/// # Errors
/// If it is no child of this process, or was waited for already.
pub fn wait_for_end(child: u32) -> io::Result<()> {
    system::wait_for_end(child)
}

/// Returns whether a child runs, without collecting its exit status.
#[must_use]
pub fn is_running(child: u32) -> bool {
    system::is_running(child)
}
