//! `fumehood approve --revoke` and `--prune`: approvals are taken back, and those of nothing are found.

use std::collections::BTreeSet;

use anyhow::Result;
use fumehood::{Lock, Namespace};
use serde::Serialize;

use crate::args::Arguments;
use crate::config::Config;
use crate::configured;
use crate::exit::{Exit, UsageError};
use crate::render;
use crate::trust::ConfigSource;

/// Revocation of one approval, for `--json`.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    status: &'static str,
    pin: String,
}

/// Takes the approvals of these names back: of all of them, or of none if one has no approval.
///
/// The configuration is not read: taking power away must not wait until a file is mended.
pub(crate) fn named(arguments: &Arguments, names: &[String]) -> Result<Exit> {
    let mut lock = configured::open_lock_beside(&Config::place(arguments.config.as_deref()))?;
    let names = names.iter().map(|name| approved(&lock, name)).collect::<Result<BTreeSet<_>, _>>()?;
    take_back(arguments, &mut lock, &names)?;
    Ok(Exit::Ok)
}

/// Takes back every approval that belongs to no component of the configuration.
pub(crate) fn stale(arguments: &Arguments) -> Result<Exit> {
    let config = ConfigSource::of(arguments).open()?;
    if !config.origin.exists() {
        let message =
            format!("there is no {} that could say which approvals are still needed", config.origin.display());
        return Err(UsageError(message).into());
    }
    let mut lock = configured::open_lock(&config)?;
    let names = configured::stale_names(&config, &lock)?;
    if names.is_empty() {
        render::note(&format!("every approval in {} belongs to a component", lock.path().display()));
        return Ok(Exit::Ok);
    }
    take_back(arguments, &mut lock, &names)?;
    Ok(Exit::Ok)
}

/// Says which approvals belong to nothing.
pub(crate) fn tell_stale(arguments: &Arguments, config: &Config, lock: &Lock) -> Result<()> {
    let names = configured::stale_names(config, lock)?;
    if names.is_empty() {
        return Ok(());
    }
    if arguments.json {
        return names.iter().try_for_each(|name| render::json(&line(lock, name, "stale")));
    }
    let (lock, config) = (lock.path().display(), config.origin.display());
    let names = listed(names.iter().map(Namespace::as_str));
    render::warning(&format!(
        "{lock} has approvals that belong to no component of {config}: {names}; take them back with `fumehood approve --prune`"
    ));
    Ok(())
}

/// Everything that the lock has an approval of, servers perhaps twice.
fn names_in(lock: &Lock) -> impl Iterator<Item = &Namespace> {
    lock.iter().map(|(name, _)| name).chain(lock.entries().map(|(name, _)| name))
}

fn approved(lock: &Lock, written: &str) -> Result<Namespace, UsageError> {
    let is_there = |name: &Namespace| lock.get(name).is_some() || lock.entry(name).is_some();
    let found = Namespace::parse(written).ok().filter(is_there);
    found.ok_or_else(|| {
        let known: BTreeSet<&str> = names_in(lock).map(Namespace::as_str).collect();
        let known = match known.is_empty() {
            false => format!("it has: {}", listed(known.into_iter())),
            true => "it has none".to_owned(),
        };
        let written = fumehood::sanitize::printable(written);
        UsageError(format!("{} has no approval of `{written}`; {known}", lock.path().display()))
    })
}

fn take_back(arguments: &Arguments, lock: &mut Lock, names: &BTreeSet<Namespace>) -> Result<()> {
    let before = lock.clone();
    for name in names {
        lock.revoke(name);
    }
    lock.save()?;
    for name in names {
        if arguments.json {
            render::json(&line(&before, name, "revoked"))?;
        } else {
            render::line(&format!("revoked the approval of `{name}` in {}", lock.path().display()))?;
        }
    }
    Ok(())
}

fn line<'a>(lock: &Lock, name: &'a Namespace, status: &'static str) -> Line<'a> {
    let pin = lock.get(name).map(|approval| approval.pin().to_string()).unwrap_or_default();
    Line { name: name.as_str(), status, pin }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
