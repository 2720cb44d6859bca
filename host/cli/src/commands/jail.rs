//! `fumehood jail`: runs a program in a kernel jail.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use fumehood::ProgramJailReport;
use fumehood_platform::process;

use crate::args::{Arguments, Jail};
use crate::exit::Exit;
use crate::{jail as jails, render, signals};

pub(crate) async fn run(arguments: &Arguments, jail: &Jail) -> Result<ExitCode> {
    if jail.check {
        return check(arguments).map(ExitCode::from);
    }
    let section = jail.options.section(&jail.command, arguments.isolation)?;
    let sandbox = jails::sandbox(&section, &jail.options, true)?;
    jails::warn_of_missing_parts(!section.http.is_empty());
    let launch = sandbox.prepare().context("cannot set up the jail")?;
    let mut signals = signals::listen_for_all().context("cannot listen for signals")?;
    let mut child = jails::command(&section, &launch).spawn().context("cannot start the jail")?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status.context("cannot wait for the program")?,
            number = signals.received() => child.id().into_iter().for_each(|child| process::send_signal(child, number)),
        }
    };
    drop(launch);
    jails::report_refusals(&*sandbox);
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or_else(|| Exit::Host.into(), ExitCode::from))
}

/// Prints what is in force in a jail on this machine. The exit code says whether it is complete.
fn check(arguments: &Arguments) -> Result<Exit> {
    let report = jails::probe()?;
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
