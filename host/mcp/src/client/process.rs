//! A server that is a program: started with a clean environment, ended together with whatever it started.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::endpoint::{Launch, Through};
use super::launcher;

/// What a program has from this process's environment.
const HANDED_ON: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];
/// Bytes of the last words of a program that are kept.
const LAST_WORDS: usize = 2048;
/// Bytes of words that are heard in a second.
const IN_A_SECOND: usize = 4 << 20;
/// How long a program has to end once its input has ended.
const GRACE: Duration = Duration::from_secs(1);
/// Between two looks whether it has.
const GLANCE: Duration = Duration::from_millis(5);

/// A running program. Dropping it kills it and its children.
pub(crate) struct Process {
    child: Child,
    words: Arc<Mutex<VecDeque<u8>>>,
}

impl Process {
    /// Starts it.
    pub(crate) async fn start(launch: &Launch) -> std::io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut child = launcher::spawn(command(launch)).await?;
        let missing = || std::io::Error::other("the program was started without its streams");
        let output = child.stdout.take().ok_or_else(missing)?;
        let input = child.stdin.take().ok_or_else(missing)?;
        let errors = child.stderr.take().ok_or_else(missing)?;
        let words = Arc::default();
        tokio::spawn(listen(errors, Arc::clone(&words)));
        Ok((Self { child, words }, output, input))
    }

    /// The end of what it wrote to its standard error.
    pub(crate) fn last_words(&self) -> String {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = words.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// Waits a moment for it to end by itself, as its input has ended. Then whatever is left of it is killed.
    pub(crate) async fn end(self) {
        let give_up = tokio::time::Instant::now() + GRACE;
        while self.is_running() && tokio::time::Instant::now() < give_up {
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Looks without collecting its exit status: that would free its number while its children may go on.
    fn is_running(&self) -> bool {
        let Some(id) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else { return false };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(id), look), Ok(None))
    }
}

fn command(launch: &Launch) -> Command {
    let mut command = match &launch.through {
        Some(Through { program, arguments }) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(&launch.program);
            command
        }
        None => Command::new(&launch.program),
    };
    command.args(&launch.arguments).env_clear();
    command.envs(HANDED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
    if let Some(folder) = &launch.folder {
        command.current_dir(folder);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own: it is ended as a whole, and Ctrl-C in a terminal is for this process only.
    command.process_group(0).kill_on_drop(true);
    command
}

impl Drop for Process {
    fn drop(&mut self) {
        // While it was not waited for, nobody else can have its number.
        if let Some(group) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Reads what a program writes, so that it is not held up by it, and keeps the end. One that writes without end is.
async fn listen(mut errors: impl AsyncRead + Unpin, words: Arc<Mutex<VecDeque<u8>>>) {
    let mut read = vec![0; 4096];
    let (mut second, mut heard) = (tokio::time::Instant::now(), 0);
    while let Ok(bytes @ 1..) = errors.read(&mut read).await {
        heard += bytes;
        if heard > IN_A_SECOND {
            tokio::time::sleep_until(second + Duration::from_secs(1)).await;
            (second, heard) = (tokio::time::Instant::now(), 0);
        }
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend(read.iter().take(bytes));
        let surplus = words.len().saturating_sub(LAST_WORDS);
        words.drain(..surplus);
    }
}
