//! `fumehood approve --revoke` and `--prune`: revoke approvals that are named or stale.

use std::collections::BTreeSet;

use anyhow::Result;
use fumehood::{Lock, Namespace};
use serde::Serialize;

use crate::app::App;
use crate::args::Arguments;
use crate::config::Config;
use crate::configured;
use crate::exit::{Exit, UsageError};
use crate::render;

/// A revoked or stale approval, for `--json`.
#[derive(Serialize)]
struct RevocationLine<'a> {
    name: &'a str,
    status: &'static str,
    pin: String,
}

/// Revokes the approvals of all these names, or of none if one has no approval.
///
/// The configuration is not read, so that a broken one does not prevent a revocation.
pub(crate) fn revoke_named(arguments: &Arguments, names: &[String]) -> Result<Exit> {
    let mut lock = configured::open_lock_beside(&Config::place(arguments.config.as_deref()), arguments.accept_lock)?;
    let names = names.iter().map(|name| parse_approved_name(&lock, name)).collect::<Result<BTreeSet<_>, _>>()?;
    revoke_all(arguments, &mut lock, &names)?;
    Ok(Exit::Ok)
}

/// Revokes every approval that belongs to no component or server of the configuration.
pub(crate) fn revoke_stale(arguments: &Arguments) -> Result<Exit> {
    let app = App::open(arguments)?;
    let config = &app.config;
    if !config.origin.exists() {
        let message =
            format!("cannot tell which approvals are still needed, because {} does not exist", config.origin.display());
        return Err(UsageError(message).into());
    }
    let mut lock = app.lock()?.clone();
    let names = configured::stale_names(config, &lock)?;
    if names.is_empty() {
        render::note(&format!("every approval in {} belongs to a component", lock.path().display()));
        return Ok(Exit::Ok);
    }
    revoke_all(arguments, &mut lock, &names)?;
    Ok(Exit::Ok)
}

/// Reports approvals that belong to no component or server of the configuration.
pub(crate) fn report_stale(app: &App<'_>, lock: &Lock) -> Result<()> {
    let names = configured::stale_names(&app.config, lock)?;
    if names.is_empty() {
        return Ok(());
    }
    if app.arguments.json {
        return names.iter().try_for_each(|name| render::json(&revocation_line(lock, name, "stale")));
    }
    let lock = lock.path().display();
    let config = app.config.origin.display();
    let names = join_names(names.iter().map(Namespace::as_str));
    render::warning(&format!(
        "{lock} has approvals for components that {config} does not have: {names}; revoke them with `fumehood approve \
         --prune`"
    ));
    Ok(())
}

/// Parses a name that has an approval.
fn parse_approved_name(lock: &Lock, typed: &str) -> Result<Namespace, UsageError> {
    let found = Namespace::parse(typed).ok().filter(|name| lock.names().contains(name));
    found.ok_or_else(|| {
        let known: Vec<&str> = lock.names().into_iter().map(Namespace::as_str).collect();
        let known = if known.is_empty() {
            "it has none".to_owned()
        } else {
            format!("it has: {}", join_names(known.into_iter()))
        };
        let typed = fumehood::sanitize::printable(typed);
        UsageError(format!("{} has no approval of `{typed}`; {known}", lock.path().display()))
    })
}

/// Revokes approvals, and reports each.
fn revoke_all(arguments: &Arguments, lock: &mut Lock, names: &BTreeSet<Namespace>) -> Result<()> {
    let before = lock.clone();
    for name in names {
        lock.revoke(name);
    }
    lock.save()?;
    for name in names {
        if arguments.json {
            render::json(&revocation_line(&before, name, "revoked"))?;
        } else {
            render::line(&format!("revoked the approval of `{name}` in {}", lock.path().display()))?;
        }
    }
    Ok(())
}

fn revocation_line<'a>(lock: &Lock, name: &'a Namespace, status: &'static str) -> RevocationLine<'a> {
    let pin = lock.get(name).map(|approval| approval.pin().to_string()).unwrap_or_default();
    RevocationLine { name: name.as_str(), status, pin }
}

fn join_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
