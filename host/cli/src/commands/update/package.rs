//! `fumehood update` for packages of npm and PyPI: installs the newest version, and shows which packages changed.

use std::collections::BTreeMap;

use anyhow::Result;
use fumehood::sanitize::printable;
use fumehood_config::package::PackageReference;

use crate::args::{self, Arguments};
use crate::commands::approve;
use crate::configuration_file::ConfigurationChange;
use crate::exit::{Exit, UnansweredError, UsageError};
use crate::packages::PackageStore;
use crate::trust::ConfigSource;
use crate::{question, render};

/// Updates the package of one server, whose new start and tools are then reviewed.
pub(super) async fn run(arguments: &Arguments, update: &args::Update, name: &str) -> Result<Exit> {
    let (text, config) = ConfigSource::from_arguments(arguments).open_with_text()?;
    let missing = || UsageError(format!("`{name}` has no package"));
    let old = config.mcp.servers.get(name).and_then(|server| server.package.clone()).ok_or_else(missing)?;
    let store = PackageStore::of_user()?;
    let newest = store.install(&PackageReference { version: None, digest: None, ..old.clone() })?;
    if newest.package.digest == old.digest {
        render::note(&format!("`{name}` is up to date"));
        return Ok(Exit::Ok);
    }
    // Files that are gone or changed are no reason to keep the old version.
    let before = store.open(&old).map(|installed| installed.contents.packages).unwrap_or_default();
    render::note(&format!("a new version of `{name}` is {}", newest.package));
    changes(&before, &newest.contents.packages).iter().for_each(|line| render::note(line));
    if update.dry_run {
        return Ok(Exit::Refused);
    }
    if !update.yes && !approve::can_ask(arguments) {
        return Err(UnansweredError(format!("`{name}` was not updated")).into());
    }
    if !update.yes && !question::ask(&format!("Use it for `{name}`?"))? {
        return Ok(Exit::Refused);
    }
    let mut change = ConfigurationChange::new(text, config)?;
    change.set_package(name, &newest.package.to_string())?;
    change.config()?;
    change.write()?;
    let review =
        args::Approve { names: vec![name.to_owned()], yes: update.yes, full: update.full, ..args::Approve::default() };
    approve::run(arguments, &review).await
}

/// Describes the packages that differ.
fn changes(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, version) in now {
        match before.get(name) {
            Some(old) if old == version => {}
            Some(old) => lines.push(format!("  {} {} becomes {}", printable(name), printable(old), printable(version))),
            None => lines.push(format!("  {} {} is new", printable(name), printable(version))),
        }
    }
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    lines.extend(gone.map(|name| format!("  {} is gone", printable(name))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_packages_are_listed() {
        let map = |list: &[(&str, &str)]| list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let before: BTreeMap<_, _> = map(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let now: BTreeMap<_, _> = map(&[("a", "1"), ("b", "2"), ("d", "1")]);
        assert_eq!(changes(&before, &now), ["  b 1 becomes 2", "  d 1 is new", "  c is gone"]);
    }
}
