//! The thread that starts worker processes. It lives as long as this process, because the kernel ends a worker together with the
//! thread that started it.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};

/// A command to be spawned.
struct Job {
    command: Command,
    started: SyncSender<io::Result<Child>>,
}

static THREAD: OnceLock<Option<Sender<Job>>> = OnceLock::new();

/// Starts a program. Blocks until it has been started.
///
/// # Errors
/// If it cannot be started.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let gone = || io::Error::other("there is no thread to start workers with");
    let thread = THREAD.get_or_init(start).as_ref().ok_or_else(gone)?;
    let (started, answer) = sync_channel(1);
    thread.send(Job { command, started }).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

fn start() -> Option<Sender<Job>> {
    let (jobs, inbox) = channel::<Job>();
    let serve = move || {
        for Job { mut command, started } in inbox {
            // The receiver is gone only if the caller panicked.
            let _unwanted = started.send(command.spawn());
        }
    };
    std::thread::Builder::new().name("fumehood-launcher".to_owned()).spawn(serve).ok()?;
    Some(jobs)
}
