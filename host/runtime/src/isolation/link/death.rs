//! The description of a worker process's end.

use std::io::{self, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ChildStderr;

use rustix::process::Signal;

/// Maximum size of the worker's stderr that is included, in bytes.
const LAST_WORDS_BYTES: usize = 256;

pub(super) fn how_it_ended(status: io::Result<std::process::ExitStatus>, stderr: Option<ChildStderr>) -> String {
    let mut how = match status {
        Ok(status) => match (status.signal(), status.code()) {
            (Some(signal), _) if signal == Signal::SYS.as_raw() => {
                "it was ended for a system call that no worker makes (SIGSYS)".to_owned()
            }
            (Some(signal), _) => format!("it was ended by signal {signal}"),
            (None, code) => format!("it ended with exit code {}", code.unwrap_or_default()),
        },
        Err(error) => format!("it ended, and nobody knows how: {error}"),
    };
    let mut words = vec![0; LAST_WORDS_BYTES];
    let is_readable = |stderr: &ChildStderr| {
        let mut polled = [rustix::event::PollFd::new(stderr, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default())).is_ok_and(|ready| ready > 0)
    };
    if let Some(mut stderr) = stderr.filter(is_readable)
        && let Ok(read @ 1..) = stderr.read(&mut words)
    {
        let words = String::from_utf8_lossy(words.get(..read).unwrap_or_default());
        how.push_str(&format!(", and said: {}", crate::outcome::cut_to(words.trim(), LAST_WORDS_BYTES)));
    }
    how
}
