//! Descriptors: none but those that the host means to hand over.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Standard input, output and error.
const STANDARD_STREAMS: usize = 3;

/// Drops descriptors that the host itself inherited without `FD_CLOEXEC`, which arrive here too: if there are any, it executes
/// this program once more with the same arguments. Must be the first step of the process.
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
