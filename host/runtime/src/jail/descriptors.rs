//! Descriptors: none but those that the host means to hand over.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Standard input, output and error.
const STANDARD_STREAMS: usize = 3;

/// Leaves behind descriptors that the host was itself given to pass on, which arrive here too: it starts this program once more,
/// with the same arguments, if there are any. Comes before everything else that a process does.
///
/// # Errors
/// If the program cannot be started once more. Otherwise it does not return in that case.
pub(crate) fn leave_inherited_descriptors() -> io::Result<()> {
    // Reading the list takes one more.
    let open = std::fs::read_dir("/proc/self/fd")?.count();
    if open <= STANDARD_STREAMS + 1 {
        return Ok(());
    }
    close_fds::set_fds_cloexec(3, &[]);
    let error = Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).exec();
    Err(io::Error::other(format!("the process cannot be started once more: {error}")))
}
