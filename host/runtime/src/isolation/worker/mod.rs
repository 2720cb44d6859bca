//! The worker process: one component in a jail. Its calls arrive over standard input.

mod calls;
mod capability_relay;
mod channel;
mod relay;
mod setup;

use std::io;
use std::process::ExitCode;

use channel::Channel;

use crate::jail::{leave_inherited_descriptors, lower_capabilities};
use crate::socket::Socket;

/// Serves the calls of one component until the host is gone. This is the whole `main` of a worker process.
///
/// [`crate::Workers`] names the program that calls it. It must be the first thing that the program does: threads that
/// exist already would not be in the jail. It does not return while the host is alive.
#[must_use]
pub fn serve_worker() -> ExitCode {
    let served = leave_inherited_descriptors().and_then(|()| serve());
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write as _;
            // The host puts this into its own error. If the host is gone, the exit code reports the failure.
            let _nobody_reads = writeln!(io::stderr().lock(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let Some(socket) = Socket::of_stdin()? else {
        return Err(io::Error::other("this command is for internal use: a fumehood host starts it with a socket"));
    };
    // A worker must not outlive its host.
    fumehood_platform::process::end_with_parent()?;
    lower_capabilities()?;
    let channel = Channel::new(socket);
    let Some(loaded) = setup::load(&channel)? else { return Ok(()) };
    calls::serve(&channel, &loaded)
}
