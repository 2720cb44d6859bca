//! The reason for the end of a worker process, in words.

use std::io::{self, Read as _};
use std::process::{ChildStderr, ExitStatus};

use fumehood_platform::process::ProcessEnd;

use crate::isolation::socket::has_output;

/// Maximum size of the worker's stderr that is quoted in the reason for its end, in bytes.
const MAX_STDERR_BYTES: usize = 256;

/// Describes how a worker process ended: its signal or exit code, and the beginning of its stderr.
pub(super) fn describe_exit(status: io::Result<ExitStatus>, stderr: Option<ChildStderr>) -> String {
    let mut how = match status {
        Ok(status) => match status.into() {
            ProcessEnd::ForbiddenCall => "it was ended for a system call that no worker makes (SIGSYS)".to_owned(),
            end @ ProcessEnd::Code(_) => format!("it ended with {end}"),
            end => format!("it was ended by {end}"),
        },
        Err(error) => format!("it ended, and nobody knows how: {error}"),
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
