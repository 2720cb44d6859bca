//! A worker process with what belongs to it alone: its stderr, and its scratch folder.

use std::io::{self, Read as _};
use std::process::{Child, ChildStderr, ExitStatus};

use fumehood_platform::process::{ProcessEnd, kill_group};

use crate::engine::file_pool::FilePool;
use crate::socket::has_output;
use crate::wasi::WorkerScratch;

/// Maximum size of the worker's stderr that is quoted in the reason for its end, in bytes.
const MAX_STDERR_BYTES: usize = 256;

/// A worker process that was started.
pub(in crate::isolation) struct WorkerProcess {
    child: Child,
    stderr: Option<ChildStderr>,
    scratch: Option<WorkerScratch>,
}

impl WorkerProcess {
    pub(in crate::isolation) fn new(mut child: Child, scratch: Option<WorkerScratch>) -> Self {
        let stderr = child.stderr.take();
        Self { child, stderr, scratch }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process and removes its scratch folder. Returns how it ended: its signal or exit code, and the beginning of its
    /// stderr.
    pub(super) fn kill(mut self, files: &FilePool) -> String {
        // The worker leads a process group of its own. One that has already ended keeps its own exit status.
        kill_group(self.child.id());
        let status = self.child.wait();
        if let Some(scratch) = self.scratch {
            scratch.remove(files);
        }
        describe_exit(status, self.stderr)
    }
}

/// Describes how a worker process ended: its signal or exit code, and the beginning of its stderr.
fn describe_exit(status: io::Result<ExitStatus>, stderr: Option<ChildStderr>) -> String {
    let mut how = match status {
        Ok(status) => match status.into() {
            ProcessEnd::ForbiddenCall => "it was killed for a forbidden system call (SIGSYS)".to_owned(),
            end @ ProcessEnd::Code(_) => format!("it ended with {end}"),
            end => format!("it was killed by {end}"),
        },
        Err(error) => format!("it ended for an unknown reason: {error}"),
    };
    let mut words = vec![0; MAX_STDERR_BYTES];
    if let Some(mut stderr) = stderr.filter(has_output)
        && let Ok(read @ 1..) = stderr.read(&mut words)
    {
        let words = String::from_utf8_lossy(words.get(..read).unwrap_or_default());
        how.push_str(&format!(", and said: {}", crate::wasi::guest_output::cut_to(words.trim(), MAX_STDERR_BYTES)));
    }
    how
}
