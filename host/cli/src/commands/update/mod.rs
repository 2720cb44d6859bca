//! `fumehood update`: resolves tags anew, and shows what changed, old beside new. What the lock pins stays until the change is
//! approved.

mod package;

use anyhow::Result;
use fumehood_registry::reference::Reference;

use super::approve;
use crate::app::App;
use crate::args::{self, Arguments};
use crate::config::Config;
use crate::config::registry::{Place, place};
use crate::configured::Version;
use crate::exit::{Exit, UsageError};
use crate::{published, render};

pub(crate) async fn run(arguments: &Arguments, update: &args::Update) -> Result<Exit> {
    let app = App::open(arguments)?;
    let config = &app.config;
    if config.offline {
        let message = "checking for newer versions needs the network; leave `--offline` out";
        return Err(UsageError(message.to_owned()).into());
    }
    let is_package = |name: &String| config.mcp.servers.get(name).is_some_and(|server| server.package.is_some());
    let packages: Vec<&String> = match update.names.as_slice() {
        [] => config.mcp.servers.keys().filter(|name| is_package(name)).collect(),
        names => names.iter().filter(|name| is_package(name)).collect(),
    };
    let names: Vec<String> = match update.names.as_slice() {
        [] => with_tags(config),
        names => {
            let components = names.iter().filter(|name| !is_package(name));
            components.map(|name| check_name(config, name)).collect::<Result<_>>()?
        }
    };
    if names.is_empty() && packages.is_empty() {
        render::note(&format!("{} has no component with a tag, and no package", config.origin.display()));
        return Ok(Exit::Ok);
    }
    let mut exit = Exit::Ok;
    for name in packages {
        if package::run(arguments, update, name).await? != Exit::Ok {
            exit = Exit::Refused;
        }
    }
    match update_components(&app, update, names).await? {
        Exit::Ok => Ok(exit),
        other => Ok(other),
    }
}

/// Resolves the tags of these components anew, and reviews what changed.
async fn update_components(app: &App<'_>, update: &args::Update, names: Vec<String>) -> Result<Exit> {
    if names.is_empty() {
        return Ok(Exit::Ok);
    }
    let config = &app.config;
    let newer = newer_versions(config, &names).await?;
    let review =
        args::Approve { names, yes: update.yes, full: update.full, check: update.dry_run, ..args::Approve::default() };
    let exit = approve::review(app, &review, Version::New).await?;
    if update.dry_run && exit == Exit::Ok {
        render::note("no tag has moved; there is nothing to update");
    }
    newer.iter().for_each(|line| render::note(line));
    Ok(exit)
}

/// Returns a line about each component that has a higher version than its tag.
async fn newer_versions(config: &Config, names: &[String]) -> Result<Vec<String>> {
    let source = published::source(config)?;
    let mut lines = Vec::new();
    for name in names {
        let Some(Ok(Place::Reference(Reference::Oci(oci)))) = config.tools.get(name).map(place) else { continue };
        if let Some(newer) = published::newer_version(&source, name, &oci).await {
            lines.push(format!("a newer version of `{name}` is {newer}"));
        }
    }
    Ok(lines)
}

/// Returns the names of components whose reference is a tag.
fn with_tags(config: &Config) -> Vec<String> {
    config.tools.keys().filter(|name| check_name(config, name).is_ok()).cloned().collect()
}

/// Checks that a component has a tag, which may move.
fn check_name(config: &Config, name: &str) -> Result<String> {
    let Some(section) = config.tools.get(name) else { return Err(approve::unknown_component(config, name).into()) };
    let reason = match place(section) {
        Ok(Place::Reference(Reference::Oci(oci))) if oci.digest().is_none() => return Ok(name.to_owned()),
        Ok(Place::Reference(_)) => "its reference has a digest; change it in the configuration",
        _ => "it is a file; replace the file",
    };
    Err(UsageError(format!("`{name}` cannot be updated: {reason}, and approve it with `fumehood approve {name}`"))
        .into())
}
