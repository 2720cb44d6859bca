//! The jail of programs: those of the command line, and what this machine lacks for all of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use fumehood::mcp::{LaunchSandbox, SandboxedLaunch};
use fumehood::settings::{JailPlace, RUN_PROGRAM, server_jail};
use fumehood::{ProgramJailReport, probe_program_jail};
use tokio::process::Command;

use crate::args::JailArguments;
use crate::config::mcp::McpServerSection;
use crate::exit::UsageError;
use crate::{flags, render};

/// The path of this very program.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";
/// Variables that the program inherits. Its home is another one.
const INHERITED_VARIABLES: [&str; 6] = ["PATH", "LANG", "LC_ALL", "TZ", "TERM", "COLORTERM"];

/// Creates the jail of a program of the command line.
///
/// # Errors
/// If a grant is not possible.
pub(crate) fn sandbox(
    section: &McpServerSection,
    options: &JailArguments,
    passes_signals: bool,
) -> Result<Arc<dyn LaunchSandbox>> {
    let base = std::env::current_dir().context("cannot find the working folder")?;
    let place = JailPlace {
        program: PathBuf::from(THIS_PROGRAM),
        home: options.home.as_ref().map(|home| base.join(home)),
        base,
        passes_signals,
    };
    let sandbox = server_jail(section, place).map_err(|error| UsageError(flags::translate(&error.to_string())))?;
    sandbox.context("a program of the command line has a jail")
}

/// Warns of parts of the jail that this machine lacks. If there is none at all, the start of the program fails with the reason.
pub(crate) fn warn_of_missing_parts(has_requests: bool) {
    if let Ok(report) = probe() {
        incomplete_parts(report, has_requests).iter().for_each(|part| render::warning(part));
    }
}

/// Returns what is in force in a jail on this machine.
///
/// # Errors
/// If no program can enter a jail here.
pub(crate) fn probe() -> Result<ProgramJailReport> {
    probe_program_jail(Path::new(THIS_PROGRAM), RUN_PROGRAM).context("cannot enter a jail")
}

/// Describes the parts that a jail lacks, as far as they matter to a program.
pub(crate) fn incomplete_parts(report: ProgramJailReport, has_requests: bool) -> Vec<String> {
    let missing = report.missing();
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("the jail is incomplete, because the kernel lacks: {}", missing.join("; ")));
    }
    if has_requests && report.connections && !report.network {
        parts.push(
            "there are no network namespaces for this user: a program with `http` could reach the port of its proxy on \
             other machines, too"
                .to_owned(),
        );
    }
    parts
}

/// Returns the command that runs a program of the command line in its jail.
pub(crate) fn command(section: &McpServerSection, launch: &SandboxedLaunch) -> Command {
    let mut command = Command::new(&launch.wrapper.program);
    command.args(&launch.wrapper.arguments).args(section.command.iter().flatten()).env_clear();
    command.envs(INHERITED_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    let variables = launch.environment.iter().map(|(name, value)| (name, value));
    command.envs(variables).envs(&section.env);
    command
}

/// Warns of the requests that a jail refused, with the options that would allow them.
pub(crate) fn report_refusals(sandbox: &dyn LaunchSandbox) {
    let lines: BTreeSet<String> = sandbox.refusals_since(0).iter().map(ToString::to_string).collect();
    for line in lines {
        render::warning(&flags::translate(&line));
    }
}
