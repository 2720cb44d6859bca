//! Starting the worker process of one component, up to its first answer.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood_core::permission::files::ProtectedFiles;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use super::frame::{self, Received, Receiver};
use super::link::Link;
use super::message::{Loaded, Setup};
use super::services::Services;
use crate::capability::WorkerScratch;
use crate::guest_runtime::Elapsed;
use crate::workers::Workers;

/// How long a worker may take to load its component, besides the time for describing its tools.
pub(super) const START: Duration = Duration::from_secs(10);

/// Everything that a worker of one component is started with.
pub(super) struct Launch {
    pub(super) workers: Workers,
    pub(super) setup: Setup,
    /// The component's bytes, its compiled code, the scratch folder if there is one, the granted folders.
    pub(super) files: Vec<File>,
    pub(super) scratch: Option<WorkerScratch>,
}

/// Errors of starting a worker.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("the worker program {} cannot be started: {source}", program.display())]
    NotStarted { program: std::path::PathBuf, source: io::Error },
    #[error("the worker did not load the component within its time")]
    Elapsed,
    #[error("the worker process failed: {0}")]
    Broken(String),
}

impl Launch {
    /// Starts a worker, and returns its first answer. Blocks for at most `patience` and a little.
    pub(super) fn start(
        &self,
        services: &Arc<Services>,
        patience: Duration,
    ) -> Result<(Arc<Link>, Loaded), StartError> {
        let broken = |error: io::Error| StartError::Broken(error.to_string());
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|errno| broken(errno.into()))?;
        let child = super::launcher::spawn(self.command(theirs))
            .map_err(|source| StartError::NotStarted { program: self.workers.program.clone(), source })?;
        let files = self.scratch.iter().map(WorkerScratch::folder);
        let (first, folders) = self.files.split_at(2.min(self.files.len()));
        let files: Vec<BorrowedFd<'_>> = first.iter().chain(files).chain(folders).map(AsFd::as_fd).collect();
        let link = Link::new(ours, Receiver::new(), child, Arc::clone(services));
        let protected = services.shared().protected.files();
        let setup = Setup { protected: ProtectedFiles::clone(&protected), ..self.setup.clone() };
        link.protected(protected);
        let frame = frame::encode(&setup).map_err(broken)?;
        let socket = link.socket();
        // It fails if the worker is gone already; then it has not answered either.
        let _sent = frame::send_all(socket, &frame, &files);
        let until = Instant::now() + patience;
        let mut incoming = link.incoming();
        loop {
            match incoming.next::<Loaded>() {
                Ok(Some(loaded)) => {
                    drop(incoming);
                    return Ok((link, loaded));
                }
                Ok(None) => {}
                Err(error) => return Err(StartError::Broken(error.to_string())),
            }
            wait_readable(socket, until).map_err(|_late| StartError::Elapsed)?;
            if incoming.receive(socket, RecvFlags::DONTWAIT).map_err(broken)? == Received::Closed {
                drop(incoming);
                link.die("");
                return Err(StartError::Broken(link.how_it_died()));
            }
        }
    }

    /// The program with one socket, a pipe for its last words, no environment, and a process group of its own.
    fn command(&self, socket: OwnedFd) -> Command {
        let mut command = Command::new(&self.workers.program);
        command
            .args(&self.workers.args)
            .env_clear()
            .stdin(Stdio::from(socket))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .current_dir("/")
            .process_group(0);
        command
    }
}

fn wait_readable(socket: impl AsFd, until: Instant) -> Result<(), Elapsed> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Elapsed);
    }
    let mut polled = [rustix::event::PollFd::new(&socket, rustix::event::PollFlags::IN)];
    let timeout = rustix::event::Timespec::try_from(left).unwrap_or_default();
    // Being interrupted, or a failure, shows in what is read next.
    let _ready = rustix::event::poll(&mut polled, Some(&timeout));
    Ok(())
}
