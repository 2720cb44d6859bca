//! `fumehood jail`: runs a program in a kernel jail.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use fumehood::ProgramJailReport;
use fumehood::mcp::SandboxedLaunch;
use fumehood_platform::process;
use tokio::process::Command;

use crate::args::{Arguments, Jail};
use crate::config::mcp::McpServerSection;
use crate::exit::Exit;
use crate::jail::{probe, report_refusals, sandbox};
use crate::{render, signals};

/// Variables that the program inherits. Its home is another one.
const INHERITED_VARIABLES: [&str; 6] = ["PATH", "LANG", "LC_ALL", "TZ", "TERM", "COLORTERM"];

pub(crate) async fn run(arguments: &Arguments, jail: &Jail) -> Result<ExitCode> {
    if jail.check {
        return check(arguments).map(ExitCode::from);
    }
    let section = jail.options.section(&jail.command, arguments.isolation)?;
    let sandbox = sandbox(&section, &jail.options, true)?;
    let launch = sandbox.prepare().context("cannot set up the jail")?;
    let mut signals = signals::listen_for_all().context("cannot listen for signals")?;
    let mut child = command(&section, &launch).spawn().context("cannot start the jail")?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status.context("cannot wait for the program")?,
            number = signals.received() => child.id().into_iter().for_each(|child| process::send_signal(child, number)),
        }
    };
    drop(launch);
    report_refusals(&*sandbox);
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or_else(|| Exit::Host.into(), ExitCode::from))
}

fn command(section: &McpServerSection, launch: &SandboxedLaunch) -> Command {
    let mut command = Command::new(&launch.wrapper.program);
    command.args(&launch.wrapper.arguments).args(section.command.iter().flatten()).env_clear();
    command.envs(INHERITED_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    let variables = launch.environment.iter().map(|(name, value)| (name, value));
    command.envs(variables).envs(&section.env);
    command
}

/// Prints what is in force in a jail on this machine. The exit code says whether it is complete.
fn check(arguments: &Arguments) -> Result<Exit> {
    let report = probe()?;
    if arguments.json {
        render::json(&report)?;
    } else {
        let ProgramJailReport { files, connections, signals, system_calls, paths, network, .. } = report;
        let lines = [
            (files, "files: only granted ones can be opened"),
            (paths, "paths: only granted ones can be seen (mount namespace)"),
            (connections, "connections: only to the proxy"),
            (network, "network: a separate one without a route (network namespace)"),
            (signals, "signals: only to processes of the jail"),
            (system_calls, "system calls: dangerous ones are refused"),
        ];
        for (is_in_force, line) in lines {
            render::line(&format!("{} {line}", if is_in_force { "yes" } else { "no " }))?;
        }
    }
    Ok(if report.is_complete() { Exit::Ok } else { Exit::Refused })
}
