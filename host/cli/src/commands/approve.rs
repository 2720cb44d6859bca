//! `fumehood approve`: look at what a component or an MCP server is and may do, and let its tools be called from then on.

use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::approval::Entry;
use fumehood::{ApprovalCheck, Host, Lock, McpTools, Namespace};
use serde::Serialize;

use super::revoke;
use crate::args::{self, Arguments};
use crate::config::Config;
use crate::config::limits::MAX_MEMORY_BYTES;
use crate::configured::{self, ConfiguredComponent};
use crate::exit::{Exit, UsageError};
use crate::render::Origin;
use crate::servers::{self, Server};
use crate::trust::ConfigSource;
use crate::{host, question, render};

/// Approval of one component, for `--json`.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    status: &'static str,
    pin: String,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    changes: &'a [fumehood::approval::Change],
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<&'a fumehood::approval::Manifest>,
}

/// The command or address of a server, for `--json`.
#[derive(Serialize)]
struct EntryLine<'a> {
    name: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<&'a [String]>,
    entry: &'a [String],
}

/// Something that can be approved.
enum Candidate {
    Component(Box<ConfiguredComponent>),
    Server(Box<Server>),
}

impl Candidate {
    fn name(&self) -> &Namespace {
        match self {
            Self::Component(component) => &component.name,
            Self::Server(server) => &server.name,
        }
    }

    fn is_pinned(&self) -> bool {
        match self {
            Self::Component(component) => component.is_pinned,
            Self::Server(server) => server.is_pinned,
        }
    }
}

pub(crate) async fn run(arguments: &Arguments, approve: &args::Approve) -> Result<Exit> {
    if approve.revoke {
        return revoke::named(arguments, &approve.names);
    }
    if approve.prune {
        return revoke::stale(arguments);
    }
    let config = ConfigSource::of(arguments).open()?;
    let mut lock = configured::open_lock(&config)?;
    let chosen = chosen(&config, &lock, approve)?;
    let host = host::builder_for(arguments, &config)?.memory_ceiling(MAX_MEMORY_BYTES).build()?;
    let (mut open, mut failed) = (Vec::new(), Vec::new());
    let several = chosen.len() > 1;
    for candidate in chosen {
        if let Candidate::Server(server) = &candidate
            && !server.may_start(&lock)
            && !decide_entry(arguments, approve, &mut lock, server)?
        {
            open.push(candidate.name().to_string());
            continue;
        }
        let (origin, pinned) = match look(&host, &config, &lock, &candidate).await {
            Ok(found) => found,
            // The others may be all right.
            Err(error) if several => {
                render::warning(&format!("`{}` was not looked at: {error:#}", candidate.name()));
                failed.push(candidate.name().to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        if !decide(arguments, approve, &mut lock, candidate.name(), &origin, &pinned)? {
            open.push(candidate.name().to_string());
        }
    }
    host.shut_down(Duration::ZERO).await;
    if approve.names.is_empty() {
        revoke::tell_stale(arguments, &config, &lock)?;
    }
    if !failed.is_empty() {
        let message = "nothing was approved of them; see above, correct that, and approve again";
        return Err(anyhow::anyhow!("could not look at: {}; {message}", failed.join(", ")));
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

fn chosen(config: &Config, lock: &Lock, approve: &args::Approve) -> Result<Vec<Candidate>> {
    if approve.names.is_empty() {
        let components = configured::all(config, lock)?.into_iter().map(|it| Candidate::Component(Box::new(it)));
        let servers = servers::all(config)?.into_iter().map(|server| Candidate::Server(Box::new(server)));
        let pinned: Vec<_> = components.chain(servers).filter(Candidate::is_pinned).collect();
        if pinned.is_empty() {
            render::note(&format!("{} has no components that need approval", config.origin.display()));
        }
        return Ok(pinned);
    }
    let find = |name: &String| match candidate(config, lock, name)? {
        Some(candidate) if candidate.is_pinned() => Ok(candidate),
        Some(_) => Err(UsageError(format!("`{name}` needs no approval: it has approval = \"off\"")).into()),
        None => Err(unknown(config, name).into()),
    };
    approve.names.iter().map(find).collect()
}

fn candidate(config: &Config, lock: &Lock, name: &str) -> Result<Option<Candidate>> {
    match servers::find(config, name)? {
        Some(server) => Ok(Some(Candidate::Server(Box::new(server)))),
        None => Ok(configured::find(config, lock, name)?.map(|it| Candidate::Component(Box::new(it)))),
    }
}

/// Error for a name that is not configured, with those that are.
pub(crate) fn unknown(config: &Config, name: &str) -> UsageError {
    if !config.origin.exists() {
        return UsageError(format!("there is no {} that could have a component `{name}`", config.origin.display()));
    }
    let known = |names: &mut dyn Iterator<Item = &String>| names.map(String::as_str).collect::<Vec<_>>().join(", ");
    let components = known(&mut config.tools.keys());
    let components = if components.is_empty() { "it has none".to_owned() } else { format!("it has: {components}") };
    let servers = known(&mut config.mcp.servers.keys());
    let servers = if servers.is_empty() { servers } else { format!("; and the MCP servers: {servers}") };
    UsageError(format!("{} has no component `{name}`; {components}{servers}", config.origin.display()))
}

/// Loads a component, or asks a server, to compare it with its approval.
async fn look(host: &Host, config: &Config, lock: &Lock, candidate: &Candidate) -> Result<(Origin, ApprovalCheck)> {
    match candidate {
        Candidate::Component(component) => {
            let file = host::file_name(&component.file);
            let loaded = host::load(host, &file, component.load.clone()).await?;
            let pinned = pinned(host, &component.name).context("the component was loaded without being compared")?;
            Ok((Origin::File(file, loaded), pinned))
        }
        Candidate::Server(server) => {
            let (name, remote) = (&server.name, server.remote(config)?);
            let mut remotes = McpTools::without_arguments(servers::actor_arguments(config));
            let added = remotes.add_pinned(&remote, server.entry.clone(), lock.get(name)).await;
            remotes.close().await;
            servers::warn_of_tools(name, Some(remotes.refused()), Some(remotes.unchecked()));
            let pinned = added.with_context(|| format!("the MCP server `{name}` cannot be looked at"))?;
            Ok((Origin::Server, pinned))
        }
    }
}

/// Shows how a server is started or reached, and approves of that if it is told to, before it is. Whether it may be then.
fn decide_entry(
    arguments: &Arguments,
    approve: &args::Approve,
    lock: &mut Lock,
    Server { name, entry, .. }: &Server,
) -> Result<bool> {
    let old = lock.entry(name).map(Entry::lines);
    if arguments.json {
        let status = if approve.yes { "entry_approved" } else { "entry_needs_approval" };
        render::json(&EntryLine { name: name.as_str(), status, old, entry })?;
    } else {
        render::entry(name.as_str(), old, entry)?;
    }
    if approve.check {
        return Ok(false);
    }
    let ask = || question::ask(&format!("Start or reach `{name}` like this, to look at its tools?"));
    if approve.yes || (can_ask(arguments) && ask()?) {
        lock.approve_entry(name.clone(), Entry::new(entry.clone()));
        lock.save()?;
        return Ok(true);
    }
    Ok(false)
}

/// Shows it, and approves it if it is told to. Whether it is approved then.
fn decide(
    arguments: &Arguments,
    approve: &args::Approve,
    lock: &mut Lock,
    name: &Namespace,
    origin: &Origin,
    pinned: &ApprovalCheck,
) -> Result<bool> {
    let is_approved = pinned.standing().is_approved();
    let status = match is_approved {
        true => "unchanged",
        false if approve.check => "needs_approval",
        false if approve.yes => "approved",
        false => "needs_approval",
    };
    if arguments.json {
        render::json(&line(name.as_str(), status, pinned))?;
    } else {
        render::standing(name.as_str(), origin, pinned, approve.full)?;
    }
    if is_approved || approve.check {
        return Ok(is_approved);
    }
    if approve.yes || (can_ask(arguments) && question::ask(&format!("Approve `{name}`?"))?) {
        lock.approve(name.clone(), pinned.parts().clone());
        lock.save()?;
        render::note(&format!("approved `{name}`, kept in {}", lock.path().display()));
        return Ok(true);
    }
    Ok(false)
}

fn line<'a>(name: &'a str, status: &'static str, pinned: &'a ApprovalCheck) -> Line<'a> {
    let (changes, parts) = match pinned.standing() {
        fumehood::approval::ApprovalStatus::Changed(changes) => (changes.as_slice(), None),
        fumehood::approval::ApprovalStatus::Never => (&[][..], Some(pinned.parts())),
        fumehood::approval::ApprovalStatus::Approved => (&[][..], None),
    };
    Line { name, status, pin: pinned.parts().pin().to_string(), changes, parts }
}

/// Compares a loaded component with its approval; `None` if it needs none or has no tools.
pub(crate) fn pinned(host: &Host, name: &Namespace) -> Option<ApprovalCheck> {
    let prefix = format!("{name}__");
    host.tools().iter().find(|tool| tool.full_name().starts_with(&prefix))?.approval().cloned()
}

fn can_ask(arguments: &Arguments) -> bool {
    !arguments.json && question::can_ask()
}
