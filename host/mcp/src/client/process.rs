//! Programs of servers: started with a clean environment, ended together with all their children.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use fumehood_platform::process;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::endpoint::{Launch, LaunchWrapper, SandboxedLaunch};

/// Variables that a program inherits from this process.
const INHERITED_VARIABLES: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];
/// Maximum size of the end of a program's standard error that is kept, in bytes.
const MAX_STDERR_TAIL_BYTES: usize = 2048;
/// Maximum number of bytes of a program's standard error that are read in a second.
const MAX_STDERR_BYTES_PER_SECOND: usize = 4 << 20;
/// Time for a program to exit once its input has ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval of the checks whether it has exited.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running program. Dropping it kills it and its children.
pub(crate) struct Process {
    child: Child,
    stderr_tail: Arc<Mutex<VecDeque<u8>>>,
    /// What the sandbox keeps while the program runs; `None` without one.
    sandbox: Option<Box<dyn Send + Sync>>,
}

impl Process {
    /// Starts a program. Returns it with its standard output and input.
    pub(crate) async fn start(launch: &Launch) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let sandboxed = launch.sandbox.as_ref().map(|sandbox| sandbox.prepare()).transpose()?;
        let mut child = spawn(command(launch, sandboxed.as_ref())).await?;
        let missing = || io::Error::other("the program was started without standard streams");
        let output = child.stdout.take().ok_or_else(missing)?;
        let input = child.stdin.take().ok_or_else(missing)?;
        let errors = child.stderr.take().ok_or_else(missing)?;
        let stderr_tail = Arc::default();
        tokio::spawn(drain_stderr(errors, Arc::clone(&stderr_tail)));
        let sandbox = sandboxed.map(|sandboxed| sandboxed.guard);
        Ok((Self { child, stderr_tail, sandbox }, output, input))
    }

    /// Returns the end of what it wrote to its standard error.
    pub(crate) fn stderr_tail(&self) -> String {
        let stderr_tail = self.stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = stderr_tail.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// Waits up to a second for it to exit by itself, as its input has ended. Then all processes that are left of it
    /// are killed.
    pub(crate) async fn end(self) {
        let deadline = tokio::time::Instant::now() + EXIT_TIMEOUT;
        while self.is_running() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(EXIT_POLL_INTERVAL).await;
        }
    }

    /// Returns whether it runs, without collecting its exit status: that would free its number while its children may
    /// go on.
    fn is_running(&self) -> bool {
        self.child.id().is_some_and(process::is_running)
    }
}

fn command(launch: &Launch, sandboxed: Option<&SandboxedLaunch>) -> Command {
    let wrapper = sandboxed.map(|sandboxed| &sandboxed.wrapper).or(launch.wrapper.as_ref());
    let mut command = match wrapper {
        Some(LaunchWrapper { program, arguments }) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(&launch.program);
            command
        }
        None => Command::new(&launch.program),
    };
    command.args(&launch.arguments).env_clear();
    command.envs(INHERITED_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    let variables = sandboxed.into_iter().flat_map(|sandboxed| &sandboxed.environment).chain(&launch.environment);
    command.envs(variables.map(|(name, value)| (name, value)));
    if let Some(folder) = &launch.folder {
        command.current_dir(folder);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A sandbox makes it lead a session, and ends all of it.
    if sandboxed.is_none() {
        // A process group of its own: it is ended as a whole, and Ctrl-C in a terminal is for this process only.
        process::lead_group(command.as_std_mut());
        command.kill_on_drop(true);
    }
    command
}

impl Drop for Process {
    fn drop(&mut self) {
        // Until it is waited for, no other process can have its number.
        match (self.child.id(), &self.sandbox) {
            (Some(sandbox), Some(_)) => process::terminate(sandbox),
            (Some(group), None) => process::kill_group(group),
            (None, _) => {}
        }
    }
}

/// Reads the standard error of a program, so that the program does not block while it writes, and keeps the end. A
/// program that writes more than [`MAX_STDERR_BYTES_PER_SECOND`] is slowed down.
async fn drain_stderr(mut errors: impl AsyncRead + Unpin, stderr_tail: Arc<Mutex<VecDeque<u8>>>) {
    let mut read = vec![0; 4096];
    let mut second = tokio::time::Instant::now();
    let mut bytes_read = 0;
    while let Ok(bytes @ 1..) = errors.read(&mut read).await {
        bytes_read += bytes;
        if bytes_read > MAX_STDERR_BYTES_PER_SECOND {
            tokio::time::sleep_until(second + Duration::from_secs(1)).await;
            (second, bytes_read) = (tokio::time::Instant::now(), 0);
        }
        let mut stderr_tail = stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        stderr_tail.extend(read.iter().take(bytes));
        let surplus = stderr_tail.len().saturating_sub(MAX_STDERR_TAIL_BYTES);
        stderr_tail.drain(..surplus);
    }
}

struct LaunchRequest {
    command: Command,
    /// The runtime of the child's streams.
    runtime: Handle,
    started: oneshot::Sender<io::Result<Child>>,
}

static LAUNCHER: OnceLock<Option<Sender<LaunchRequest>>> = OnceLock::new();

/// Starts a program on a thread that lives as long as this process.
///
/// The system ends a program with the thread that started it, so a thread of a runtime would not do.
///
/// # Errors
/// If it cannot be started.
async fn spawn(command: Command) -> io::Result<Child> {
    let launcher = LAUNCHER.get_or_init(start_launcher).as_ref().ok_or_else(launcher_gone)?;
    let (started, answer) = oneshot::channel();
    launcher.send(LaunchRequest { command, runtime: Handle::current(), started }).map_err(|_| launcher_gone())?;
    answer.await.map_err(|_| launcher_gone())?
}

fn launcher_gone() -> io::Error {
    io::Error::other("the thread that starts programs has ended")
}

fn start_launcher() -> Option<Sender<LaunchRequest>> {
    let (sender, receiver) = channel::<LaunchRequest>();
    let serve = move || {
        for LaunchRequest { mut command, runtime, started } in receiver {
            let _here = runtime.enter();
            // If the receiver is gone, the child is dropped, which kills it, or ends a sandbox here.
            if let Err(Ok(unwanted)) = started.send(command.spawn())
                && let Some(sandbox) = unwanted.id()
            {
                process::terminate(sandbox);
            }
        }
    };
    std::thread::Builder::new().name("mcp-launcher".to_owned()).spawn(serve).ok()?;
    Some(sender)
}

/// Becomes this program. The system kills it once the process `parent`, which started this one, is gone for any reason.
/// Returns only on failure. It is meant for a hidden command of a program that is named in [`Launch::wrapper`].
///
/// [`Launch::wrapper`]: crate::Launch::wrapper
#[must_use]
pub fn end_with_parent(parent: u32, program: OsString, arguments: impl IntoIterator<Item = OsString>) -> io::Error {
    match process::end_with_parent_process(parent) {
        Ok(()) => process::replace_with(program, arguments),
        Err(error) => error,
    }
}
