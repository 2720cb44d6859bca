//! `fumehood approve`: look at what a component is and may do, and let its tools be called from then on.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::{Host, Lock, Namespace, Pinned};
use serde::Serialize;

use super::revoke;
use crate::args::{self, Arguments};
use crate::config::Config;
use crate::config::limits::MEMORY_CEILING;
use crate::configured::{self, Configured};
use crate::exit::{Exit, UsageError};
use crate::{host, render};

/// What became of one component, for `--json`.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    status: &'static str,
    pin: String,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    changes: &'a [fumehood::approval::Change],
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<&'a fumehood::approval::Parts>,
}

pub(crate) async fn run(arguments: &Arguments, approve: &args::Approve) -> Result<Exit> {
    if approve.revoke {
        return revoke::named(arguments, &approve.names);
    }
    if approve.prune {
        return revoke::stale(arguments);
    }
    let config = Config::find(arguments.config.as_deref())?;
    let mut lock = configured::lock(&config)?;
    let chosen = chosen(&config, &lock, approve)?;
    let host = host::builder_for(arguments, &config)?.memory_ceiling(MEMORY_CEILING).build()?;
    let mut open = Vec::new();
    for component in chosen {
        if !decide(arguments, approve, &host, &mut lock, &component).await? {
            open.push(component.name.to_string());
        }
    }
    host.shut_down(Duration::ZERO).await;
    if approve.names.is_empty() {
        revoke::tell_stale(arguments, &config, &lock)?;
    }
    if open.is_empty() {
        return Ok(Exit::Ok);
    }
    if !approve.check && !approve.yes && !can_ask(arguments) {
        let message = format!(
            "nobody can be asked here, so nothing was approved of: {}; look at it, and approve with `--yes`",
            open.join(", ")
        );
        return Err(UsageError(message).into());
    }
    Ok(Exit::Refused)
}

fn chosen(config: &Config, lock: &Lock, approve: &args::Approve) -> Result<Vec<Configured>> {
    if approve.names.is_empty() {
        let pinned: Vec<_> = configured::all(config, lock)?.into_iter().filter(|it| it.is_pinned).collect();
        if pinned.is_empty() {
            render::note(&format!("{} has no components that need approval", config.origin.display()));
        }
        return Ok(pinned);
    }
    let find = |name: &String| match configured::named(config, lock, name)? {
        Some(component) if component.is_pinned => Ok(component),
        Some(_) => Err(UsageError(format!("`{name}` needs no approval: it has approval = \"off\"")).into()),
        None => Err(unknown(config, name).into()),
    };
    approve.names.iter().map(find).collect()
}

/// What is configured, when something else was named.
pub(crate) fn unknown(config: &Config, name: &str) -> UsageError {
    if !config.origin.exists() {
        return UsageError(format!("there is no {} that could have a component `{name}`", config.origin.display()));
    }
    let mut known: Vec<&str> = config.tools.keys().map(String::as_str).collect();
    known.sort_unstable();
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has: {}", known.join(", ")) };
    UsageError(format!("{} has no component `{name}`; {known}", config.origin.display()))
}

/// Shows it, and approves it if it is told to. Whether it is approved then.
async fn decide(
    arguments: &Arguments,
    approve: &args::Approve,
    host: &Host,
    lock: &mut Lock,
    component: &Configured,
) -> Result<bool> {
    let file = host::file_name(&component.file);
    host::load(host, &file, component.load.clone()).await?;
    let pinned = pinned(host, &component.name).context("the component was loaded without being compared")?;
    let name = component.name.as_str();
    let is_approved = pinned.standing().is_approved();
    let status = match is_approved {
        true => "unchanged",
        false if approve.check => "needs_approval",
        false if approve.yes => "approved",
        false => "needs_approval",
    };
    if arguments.json {
        render::json(&line(name, status, &pinned))?;
    } else {
        render::standing(name, &file, &pinned)?;
    }
    if is_approved || approve.check {
        return Ok(is_approved);
    }
    if approve.yes || (can_ask(arguments) && ask(name)?) {
        lock.approve(component.name.clone(), pinned.parts().clone());
        lock.save()?;
        render::note(&format!("approved `{name}`, kept in {}", lock.path().display()));
        return Ok(true);
    }
    Ok(false)
}

fn line<'a>(name: &'a str, status: &'static str, pinned: &'a Pinned) -> Line<'a> {
    let (changes, parts) = match pinned.standing() {
        fumehood::approval::Standing::Changed(changes) => (changes.as_slice(), None),
        fumehood::approval::Standing::Never => (&[][..], Some(pinned.parts())),
        fumehood::approval::Standing::Approved => (&[][..], None),
    };
    Line { name, status, pin: pinned.parts().pin().to_string(), changes, parts }
}

fn pinned(host: &Host, name: &Namespace) -> Option<Pinned> {
    let prefix = format!("{name}__");
    host.tools().iter().find(|tool| tool.full_name().starts_with(&prefix))?.approval().cloned()
}

fn can_ask(arguments: &Arguments) -> bool {
    !arguments.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Anything but a clear yes is a no.
fn ask(name: &str) -> Result<bool> {
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "Approve `{name}`? [y/N] ").and_then(|()| stderr.flush()).context("cannot ask")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
