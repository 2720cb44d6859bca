//! `fumehood remove`: takes a component out of the configuration and revokes its approval.
//!
//! It writes the configuration, then the lock. A process that is killed in between leaves an approval of a name that the
//! configuration does not have, which has no effect.

use anyhow::Result;
use fumehood::Namespace;
use fumehood::agent::suggest;

use crate::args::{self, Arguments};
use crate::config::Config;
use crate::configuration_file::ConfigurationChange;
use crate::exit::{Exit, UsageError};
use crate::trust::ConfigSource;
use crate::{configured, render};

pub(crate) fn run(arguments: &Arguments, remove: &args::Remove) -> Result<Exit> {
    let (text, config) = ConfigSource::from_arguments(arguments).open_with_text()?;
    let name = remove.name.as_str();
    let mut change = ConfigurationChange::new(text, config.clone())?;
    if !change.remove_tool(name) {
        return Err(missing(name, &config).into());
    }
    // Another section may need the component.
    change.config()?;
    change.write()?;
    let mut lock = configured::open_lock(&config)?;
    let is_revoked = Namespace::parse(name).is_ok_and(|name| lock.revoke(&name));
    if is_revoked {
        lock.save()?;
    }
    if arguments.json {
        render::json(&serde_json::json!({"name": name, "status": "removed", "revoked": is_revoked}))?;
        return Ok(Exit::Ok);
    }
    let approval =
        if is_revoked { format!(", and revoked its approval in {}", lock.path().display()) } else { String::new() };
    render::line(&format!("removed `{name}` from {}{approval}", config.origin.display()))?;
    Ok(Exit::Ok)
}

/// Returns the error for a name that no section has.
fn missing(name: &str, config: &Config) -> UsageError {
    let origin = config.origin.display();
    let typed = fumehood::sanitize::printable(name);
    if config.mcp.servers.contains_key(name) {
        return UsageError(format!("`{typed}` is an MCP server; remove [mcp.servers.{typed}] from {origin} by hand"));
    }
    let known: Vec<&str> = config.tools.keys().map(String::as_str).collect();
    let help = match suggest(name, known.iter().copied()) {
        Some(suggestion) => suggestion,
        None if known.is_empty() => "it has none".to_owned(),
        None => format!("it has: {}", known.join(", ")),
    };
    UsageError(format!("{origin} has no component `{typed}`; {help}"))
}
