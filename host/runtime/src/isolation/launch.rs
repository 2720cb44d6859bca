//! Starting the worker process of one component, up to its first answer.

use std::fs::File;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fumehood_core::policy::permission::files::ProtectedFiles;
use fumehood_platform::process;

use super::frame::{self, Message, Received, Receiver};
use super::link::{Link, WorkerProcess};
use super::message::{Loaded, Setup};
use super::services::Services;
use crate::config::Workers;
use crate::socket::{Socket, Wait};

/// Maximum time for a worker to load its component, in addition to the time for describing its tools.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of the first answer of a worker, in bytes: the definitions of all its tools.
const MAX_LOADED_BYTES: usize = 64 << 20;

/// The program, the setup and the files for starting workers of one component.
pub(super) struct WorkerLaunch {
    pub(super) workers: Workers,
    pub(super) setup: Setup,
    /// The component's bytes, its compiled code, and the granted folders.
    pub(super) files: Vec<File>,
}

/// Errors of starting a worker.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("cannot start the worker program {}: {source}", program.display())]
    NotStarted { program: std::path::PathBuf, source: io::Error },
    #[error("the worker did not load the component in time")]
    Elapsed,
    #[error("the worker process failed: {0}")]
    Broken(String),
}

impl WorkerLaunch {
    /// Starts a worker, and returns its first answer. Blocks for little more than `patience` at most.
    ///
    /// # Errors
    /// If the worker cannot be started, fails, or does not answer in time.
    pub(super) fn start(
        &self,
        services: &Arc<Services>,
        patience: Duration,
    ) -> Result<(Arc<Link>, Loaded), StartError> {
        let broken = |error: io::Error| StartError::Broken(error.to_string());
        // Each worker has its own: both would give their spaces the same names.
        let root = &services.shared().scratch_root;
        let scratch = self.setup.grant.scratch().map(|_| root.create_for_worker()).transpose().map_err(broken)?;
        let (ours, theirs) = Socket::pair().map_err(broken)?;
        let child = spawn(self.command(theirs))
            .map_err(|source| StartError::NotStarted { program: self.workers.program.clone(), source })?;
        let folder = scratch.as_ref().map(|scratch| scratch.folder().try_clone()).transpose().map_err(broken)?;
        let (first, folders) = self.files.split_at(2.min(self.files.len()));
        let files: Vec<&File> = first.iter().chain(&folder).chain(folders).collect();
        let process = WorkerProcess::new(child, scratch);
        let link = Link::new(ours, Receiver::new(), process, Arc::clone(services));
        let protected = services.shared().protected.files();
        let setup = Setup { protected: ProtectedFiles::clone(&protected), ..self.setup.clone() };
        link.set_protected(protected);
        let frame = frame::encode(&setup, files.len()).map_err(broken)?;
        let socket = link.socket();
        // An error means that the worker is gone already. The loop below detects that.
        let _sent = frame::send_all(socket, &frame, &files);
        let until = Instant::now() + patience;
        let mut incoming = link.incoming();
        loop {
            match incoming
                .next::<Loaded>(MAX_LOADED_BYTES)
                .and_then(|loaded| loaded.map(Message::without_files).transpose())
            {
                Ok(Some(loaded)) => {
                    drop(incoming);
                    return Ok((link, loaded));
                }
                Ok(None) => {}
                Err(error) => return Err(StartError::Broken(error.to_string())),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StartError::Elapsed);
            }
            socket.wait_readable(left);
            if incoming.receive(socket, Wait::Never).map_err(broken)? == Received::Closed {
                drop(incoming);
                link.kill("");
                return Err(StartError::Broken(link.exit_reason()));
            }
        }
    }

    /// Returns the command of a worker: one socket, a pipe as stderr for its error, no environment, and a process group
    /// of its own.
    fn command(&self, socket: Socket) -> Command {
        let mut command = Command::new(&self.workers.program);
        command
            .args(&self.workers.args)
            .env_clear()
            .stdin(socket.into_stdin())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .current_dir("/");
        process::lead_group(&mut command);
        command
    }
}

/// A command to be spawned.
struct SpawnJob {
    command: Command,
    started: SyncSender<io::Result<Child>>,
}

/// The thread that starts worker processes. It lives as long as this process, because the kernel ends a worker together
/// with the thread that started it.
static LAUNCHER: OnceLock<Option<Sender<SpawnJob>>> = OnceLock::new();

/// Starts a program from the launcher thread. Blocks until it has been started.
///
/// # Errors
/// If it cannot be started.
fn spawn(command: Command) -> io::Result<Child> {
    let launcher = LAUNCHER.get_or_init(start_launcher).as_ref().ok_or_else(launcher_gone)?;
    let (started, answer) = sync_channel(1);
    launcher.send(SpawnJob { command, started }).map_err(|_| launcher_gone())?;
    answer.recv().map_err(|_| launcher_gone())?
}

fn launcher_gone() -> io::Error {
    io::Error::other("the thread that starts workers has ended")
}

fn start_launcher() -> Option<Sender<SpawnJob>> {
    let (jobs, inbox) = channel::<SpawnJob>();
    let serve = move || {
        for SpawnJob { mut command, started } in inbox {
            // The receiver is gone only if the caller panicked.
            let _unwanted = started.send(command.spawn());
        }
    };
    std::thread::Builder::new().name("fumehood-launcher".to_owned()).spawn(serve).ok()?;
    Some(jobs)
}
