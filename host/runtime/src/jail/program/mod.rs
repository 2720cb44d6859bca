//! The jail of an ordinary program, such as an MCP server for Node or Python.
//!
//! Such a program reads its own files, those of the system and those that it was granted, writes where it was granted,
//! and connects to a proxy at most, which decides on its requests. The list of system calls forbids what is
//! dangerous, because a language runtime needs too many to list those that are allowed.

mod files;
mod supervisor;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use fumehood_platform::process;
use serde::{Deserialize, Serialize};

use crate::network::ProxyAddress;

pub(crate) use files::{Rights, Surrounding};

/// The jail of one program: its grants and limits.
///
/// ```
/// use fumehood_runtime::ProgramJail;
///
/// let jail = ProgramJail { read: vec!["/srv/docs".into()], ..ProgramJail::default() };
/// assert_eq!(jail.proxy, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramJail {
    /// Files and folders that it may read and run.
    pub read: Vec<PathBuf>,
    /// Folders that it may read, change and run.
    pub write: Vec<PathBuf>,
    /// The folder for its temporary files, which it also finds at `/tmp` where the kernel can show it there.
    pub temporary: Option<PathBuf>,
    /// The home folder of the user, which is no part of a program whose files are found below it.
    pub user_home: Option<PathBuf>,
    /// The proxy that it may connect to; `None` for no network at all.
    pub proxy: Option<ProxyAddress>,
    /// Its limits.
    pub limits: ProgramLimits,
    /// Refuses to start it where the kernel lacks a part of [`ProgramJailReport::is_complete`].
    pub is_required: bool,
    /// Passes signals on to it. Otherwise `SIGTERM`, `SIGINT` and `SIGHUP` end it at once.
    pub passes_signals: bool,
}

/// Limits that the kernel enforces on a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramLimits {
    /// Maximum memory of each of its processes, in bytes. Default: 2 GiB.
    pub memory: u64,
    /// Maximum CPU time of each of its processes, in seconds. Default: one hour.
    pub cpu_seconds: u64,
    /// Maximum number of its processes and threads together. Default: 256.
    pub processes: u64,
    /// Maximum number of open files of each of its processes. Default: 1,024.
    pub open_files: u64,
    /// Maximum size of a file that it writes, in bytes. Default: 1 GiB.
    pub file_size: u64,
}

impl Default for ProgramLimits {
    fn default() -> Self {
        Self { memory: 2 << 30, cpu_seconds: 3600, processes: 256, open_files: 1024, file_size: 1 << 30 }
    }
}

/// The parts of a program's jail that are in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProgramJailReport {
    /// Landlock restricts files (Linux 5.13).
    pub files: bool,
    /// Landlock (Linux 6.7) or a network namespace restricts connections to the port of the proxy. Without both, a program
    /// has no network.
    pub connections: bool,
    /// Landlock restricts signals to the program's own processes (Linux 6.12).
    pub signals: bool,
    /// A seccomp filter restricts system calls.
    pub system_calls: bool,
    /// It has a mount tree with what it may use, and nothing else. Not part of [`is_complete`](Self::is_complete).
    pub paths: bool,
    /// It has a network namespace, from which no other machine can be reached. Not part of
    /// [`is_complete`](Self::is_complete).
    pub network: bool,
}

impl ProgramJailReport {
    /// Returns whether every part is in force.
    #[must_use]
    pub fn is_complete(self) -> bool {
        self.missing().is_empty()
    }

    /// Returns the parts without which the jail is not complete, for messages; empty if none is missing.
    #[must_use]
    pub fn missing(self) -> Vec<&'static str> {
        let parts = [
            (self.files, "Landlock, which restricts files (Linux 5.13)"),
            (
                self.connections,
                "Landlock for connections (Linux 6.7) or network namespaces, so that there is no network",
            ),
            (self.signals, "Landlock for signals (Linux 6.12)"),
            (self.system_calls, "seccomp filters"),
        ];
        parts.into_iter().filter(|(is_in_force, _)| !is_in_force).map(|(_, part)| part).collect()
    }
}

impl ProgramJail {
    /// Returns the arguments that follow the hidden command which calls [`run_program`], before the program and its
    /// arguments. The program ends with the process of this id.
    ///
    /// # Errors
    /// If a path is not UTF-8.
    pub fn to_arguments(&self, parent: u32) -> Result<Vec<String>, ProgramJailError> {
        let jail = serde_json::to_string(self).map_err(|_| ProgramJailError::Path)?;
        Ok(vec![SUPERVISE.to_owned(), parent.to_string(), jail])
    }
}

/// Errors of [`ProgramJail::to_arguments`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramJailError {
    /// A path is not UTF-8.
    #[error("the path of a granted folder is not UTF-8")]
    Path,
}

/// The first argument of the process that watches over a program.
const SUPERVISE: &str = "supervise";
/// The first argument of the process that enters the jail, and becomes the program.
const ENTER: &str = "enter";
/// The first argument of a process that enters a jail, and prints what is in force.
const PROBE: &str = "probe";

/// Exit code for a program that could not be started.
const NOT_STARTED: u8 = 127;

/// Runs a program in a jail until it has ended. This is the whole `main` of a hidden command, `command`, whose arguments
/// begin with those of [`ProgramJail::to_arguments`].
///
/// It must be the first thing that the process does: threads that exist already would not be in the jail.
#[must_use]
pub fn run_program(command: &str, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Start::parse(arguments) {
        Some(start) => start.run(command).unwrap_or_else(|error| fail(&error)),
        None => fail(&"this command is for internal use: a fumehood host starts it"),
    }
}

/// Enters a jail on this machine, and returns what was in force there. `program` is one whose hidden command `command` calls
/// [`run_program`].
///
/// # Errors
/// If the program cannot be started, or cannot enter a jail.
pub fn probe_program_jail(program: &Path, command: &str) -> io::Result<ProgramJailReport> {
    let jail = serde_json::to_string(&ProgramJail::default())?;
    let parent = std::process::id().to_string();
    let probed = Command::new(program).args([command, PROBE, &parent, &jail, PROBE]).stdin(Stdio::null()).output()?;
    if probed.status.success() {
        return Ok(serde_json::from_slice(&probed.stdout)?);
    }
    Err(io::Error::other(String::from_utf8_lossy(&probed.stderr).trim().to_owned()))
}

/// Says on standard error why the program does not run.
fn fail(error: &dyn fmt::Display) -> ExitCode {
    // The host reads it as the last words of the program. If the host is gone, the exit code reports the failure.
    let _nobody_reads = writeln!(io::stderr().lock(), "{error}");
    NOT_STARTED.into()
}

/// The command line of the hidden command.
struct Start {
    stage: String,
    parent: u32,
    text: String,
    jail: ProgramJail,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Start {
    fn parse(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut words = arguments.into_iter();
        let mut word = || words.next()?.into_string().ok();
        let stage = word()?;
        let parent = word()?.parse().ok()?;
        let text = word()?;
        let jail = serde_json::from_str(&text).ok()?;
        Some(Self { stage, parent, text, jail, program: words.next()?, arguments: words.collect() })
    }

    fn run(self, command: &str) -> Result<ExitCode, String> {
        match self.stage.as_str() {
            SUPERVISE => supervisor::supervise(&self, command),
            ENTER => Err(self.become_program()),
            PROBE => {
                let report = serde_json::to_string(&self.enter_jail()?).map_err(|error| error.to_string())?;
                writeln!(io::stdout().lock(), "{report}").map_err(|error| error.to_string())?;
                Ok(ExitCode::SUCCESS)
            }
            _ => Err("this command is for internal use: a fumehood host starts it".to_owned()),
        }
    }

    /// Enters the jail, and returns what is in force.
    fn enter_jail(&self) -> Result<ProgramJailReport, String> {
        process::end_with_parent_process(self.parent).map_err(|error| error.to_string())?;
        let surroundings = files::surroundings(&self.jail, &self.program, &self.arguments)?;
        let entered = super::system::enter_program(&self.jail, &surroundings);
        entered.map_err(|error| format!("cannot enter the jail: {error}"))
    }

    /// Enters the jail and becomes the program. Returns the error if that fails.
    fn become_program(self) -> String {
        match self.enter_jail() {
            Ok(report) if self.jail.is_required && !report.is_complete() => {
                return format!("the kernel lacks a part of the jail: {}", report.missing().join(", "));
            }
            Ok(_) => {}
            Err(error) => return error,
        }
        let shown = self.program.to_string_lossy().into_owned();
        let error = process::replace_with(self.program, self.arguments);
        format!("cannot start {shown} in its jail: {error}")
    }
}
