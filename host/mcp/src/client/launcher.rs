//! Programs are started by one thread that lives as long as the process: what the system ends with its parent, it ends with
//! the thread that started it.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

struct LaunchRequest {
    command: Command,
    /// Where the child's streams belong.
    runtime: Handle,
    started: oneshot::Sender<io::Result<Child>>,
}

static THREAD: OnceLock<Option<Sender<LaunchRequest>>> = OnceLock::new();

/// Starts a program.
///
/// # Errors
/// If it cannot be started.
pub(crate) async fn spawn(command: Command) -> io::Result<Child> {
    let gone = || io::Error::other("there is no thread to start programs with");
    let thread = THREAD.get_or_init(begin).as_ref().ok_or_else(gone)?;
    let (started, answer) = oneshot::channel();
    thread.send(LaunchRequest { command, runtime: Handle::current(), started }).map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

fn begin() -> Option<Sender<LaunchRequest>> {
    let (orders, inbox) = channel::<LaunchRequest>();
    let serve = move || {
        for LaunchRequest { mut command, runtime, started } in inbox {
            let _here = runtime.enter();
            // Whoever does not wait any more has dropped the child, which kills it.
            let _unwanted = started.send(command.spawn());
        }
    };
    std::thread::Builder::new().name("mcp-launcher".to_owned()).spawn(serve).ok()?;
    Some(orders)
}
