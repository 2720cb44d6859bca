//! Becoming another program that the system ends together with the process that started it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Becomes this program. The system kills it once the process `parent`, which started this one, is gone, however that
/// comes about. Returns only if that cannot be. For a hidden command of a program that is named in [`Launch::through`].
///
/// [`Launch::through`]: crate::Launch::through
#[must_use]
pub fn end_with_parent(parent: u32, program: OsString, arguments: impl IntoIterator<Item = OsString>) -> io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // It may have gone before that was asked for, and then nothing will ever come.
    if getppid().map(|found| found.as_raw_nonzero().get().cast_unsigned()) != Some(parent) {
        return io::Error::other("the process that started this one is gone");
    }
    Command::new(program).args(arguments).exec()
}
