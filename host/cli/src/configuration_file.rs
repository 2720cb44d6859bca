//! Changes of `fumehood.toml`: comments and order are kept, and the file is replaced as a whole.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fumehood_platform::private;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use crate::config::{self, Config, text_of};
use crate::exit::UsageError;
use crate::grants::Grants;
use crate::trust::{TrustStatus, TrustStore};

/// Maximum wait for another process that changes the file.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Interval of the checks whether that process has finished.
const POLL: Duration = Duration::from_millis(10);

/// A change of a configuration that is not written yet.
pub(crate) struct ConfigurationChange {
    /// The text before; `None` if there is no file.
    old: Option<String>,
    document: DocumentMut,
    config: Config,
}

impl ConfigurationChange {
    /// Begins a change of a configuration that was read from `text`.
    ///
    /// # Errors
    /// If the text is no TOML.
    pub(crate) fn new(text: Option<String>, config: Config) -> Result<Self> {
        let document = text.as_deref().unwrap_or_default().parse();
        let document = document.context("cannot change the configuration")?;
        Ok(Self { old: text, document, config })
    }

    /// Adds a component: `key` is `component` or `reference`.
    ///
    /// # Errors
    /// If the file has something else in that place.
    pub(crate) fn add_tool(&mut self, name: &str, key: &str, place: &str) -> Result<()> {
        let tools = table_in(self.document.as_table_mut(), "tools")?;
        let mut tool = Table::new();
        tool.insert(key, value(place));
        tools.insert(name, Item::Table(tool));
        Ok(())
    }

    /// Adds an MCP server with these settings.
    ///
    /// # Errors
    /// If the file has something else in that place.
    pub(crate) fn add_server(&mut self, name: &str, settings: &[(&str, toml::Value)]) -> Result<()> {
        let servers = table_in(table_in(self.document.as_table_mut(), "mcp")?, "servers")?;
        let mut server = Table::new();
        for (key, setting) in settings {
            server.insert(key, inline(setting)?);
        }
        servers.insert(name, Item::Table(server));
        Ok(())
    }

    /// Changes the package of an MCP server.
    ///
    /// # Errors
    /// If the file has no such server.
    pub(crate) fn set_package(&mut self, name: &str, package: &str) -> Result<()> {
        let servers = table_in(table_in(self.document.as_table_mut(), "mcp")?, "servers")?;
        let server = servers.get_mut(name).and_then(Item::as_table_like_mut).ok_or_else(|| misplaced(name))?;
        server.insert("package", value(package));
        Ok(())
    }

    /// Removes a component. Returns whether the file has a section for it.
    pub(crate) fn remove_tool(&mut self, name: &str) -> bool {
        let tools = self.document.get_mut("tools").and_then(Item::as_table_like_mut);
        tools.is_some_and(|tools| tools.remove(name).is_some())
    }

    /// Adds the grants of a component that was added before, each with the reason of its author, and comments for those that
    /// wait for the operator. A table in one line has no place for comments.
    ///
    /// # Errors
    /// If the file has something else in that place.
    pub(crate) fn grant(&mut self, name: &str, grants: &Grants) -> Result<()> {
        let tools = table_in(self.document.as_table_mut(), "tools")?;
        let tool = tools.get_mut(name).ok_or_else(|| misplaced(name))?;
        let granted = grants.table()?;
        let Some(section) = tool.as_table_mut() else {
            let section = tool.as_table_like_mut().ok_or_else(|| misplaced(name))?;
            for (key, granted) in &granted {
                section.insert(key, inline(granted)?);
            }
            return Ok(());
        };
        for (key, granted) in &granted {
            section.insert(key, inline(granted)?);
            let reasons = grants.reasons(key);
            if let Some(mut key) = section.key_mut(key).filter(|_| !reasons.is_empty()) {
                key.leaf_decor_mut().set_prefix(format!("# Wanted {}.\n", reasons.join("; ")));
            }
        }
        let comments: String = grants.comments()?.iter().map(|comment| format!("\n# {comment}")).collect();
        if let Some((_, Item::Value(last))) = section.iter_mut().last() {
            last.decor_mut().set_suffix(comments);
        }
        Ok(())
    }

    /// Trusts a public key for a name of a registry.
    ///
    /// # Errors
    /// If the file has something else in that place.
    pub(crate) fn trust_key(&mut self, registry_name: &str, key: &str) -> Result<()> {
        let registry = table_in(self.document.as_table_mut(), "registry")?;
        let trusted = table_in(registry, "trusted")?;
        let keys = trusted.entry(registry_name).or_insert_with(|| value(Array::new()));
        let keys = keys.as_array_mut().ok_or_else(|| misplaced(registry_name))?;
        if !keys.iter().any(|there| there.as_str() == Some(key)) {
            keys.push(key);
        }
        Ok(())
    }

    /// Returns the configuration as it will be.
    ///
    /// # Errors
    /// If it would not be valid.
    pub(crate) fn config(&self) -> Result<Config> {
        let changed = config::parse(&self.config.origin, &self.document.to_string())?;
        Ok(Config { offline: self.config.offline, accept_lock: self.config.accept_lock, ..changed })
    }

    /// Writes the file: a reader sees the old one or the new one. A file that was trusted as it was is trusted as it is then, and
    /// so is a new one.
    ///
    /// # Errors
    /// If the file was changed by others since it was read, or cannot be written. The old one is then unchanged.
    pub(crate) fn write(self) -> Result<()> {
        let file = &self.config.origin;
        let _held = hold(self.config.folder())?;
        let now = if file.exists() { Some(text_of(file)?) } else { None };
        if now != self.old {
            let message = format!(
                "{} was changed by another program in the meantime, and was not written; try again",
                file.display()
            );
            return Err(UsageError(message).into());
        }
        let text = self.document.to_string();
        let trust = TrustStore::for_current_user();
        let is_trusted = |store: &TrustStore| match &self.old {
            Some(old) => store.status(file, old) == TrustStatus::Trusted,
            None => true,
        };
        // Without a home folder nothing is ever trusted.
        let trust = trust.ok().filter(is_trusted);
        if let Some(store) = &trust {
            store.trust_change(file, self.old.as_deref().unwrap_or_default(), &text)?;
        }
        replace(file, &text).with_context(|| format!("cannot write {}; it is unchanged", file.display()))?;
        if let Some(store) = &trust {
            store.trust(file, &text)?;
        }
        Ok(())
    }
}

/// Returns the table under a key; an empty one without a line of its own if there is none.
fn table_in<'a>(parent: &'a mut dyn TableLike, key: &str) -> Result<&'a mut dyn TableLike> {
    let mut empty = Table::new();
    empty.set_implicit(true);
    parent.entry(key).or_insert(Item::Table(empty)).as_table_like_mut().ok_or_else(|| misplaced(key))
}

/// Returns a value in one line.
fn inline(granted: &toml::Value) -> Result<Item> {
    let parsed: toml_edit::Value = granted.to_string().parse().context("cannot write the grants")?;
    Ok(value(parsed))
}

fn misplaced(key: &str) -> anyhow::Error {
    UsageError(format!("cannot add to `{key}` of the configuration; add the lines by hand")).into()
}

/// Replaces the file that a path leads to. The new one is complete before it has the name.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = match std::fs::metadata(&target) {
        Ok(metadata) => metadata.permissions(),
        Err(_) => private::readable_permissions(),
    };
    let mut new = tempfile::Builder::new().prefix(".fumehood.toml.").permissions(permissions).tempfile_in(folder)?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(&target).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

/// Keeps other processes from writing, with a lock on the folder, as the lock of approvals does.
fn hold(folder: &Path) -> Result<File> {
    let shown = folder.display();
    let opened = File::open(folder).with_context(|| format!("cannot use the folder {shown}"))?;
    let started = Instant::now();
    loop {
        match opened.try_lock() {
            Ok(()) => return Ok(opened),
            Err(std::fs::TryLockError::WouldBlock) if started.elapsed() < MAX_WAIT => std::thread::sleep(POLL),
            Err(error) => {
                let message = format!("the folder {shown} is in use by another process ({error}); try again");
                return Err(UsageError(message).into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: Option<&str>, expected: Expect) {
        let config = match text {
            Some(text) => config::parse(Path::new("fumehood.toml"), text).unwrap(),
            None => Config::none(),
        };
        let mut change = ConfigurationChange::new(text.map(str::to_owned), config).unwrap();
        change.add_tool("greeter", "reference", "oci://ghcr.io/acme/greeter:1.0").unwrap();
        change.config().unwrap();
        expected.assert_eq(&change.document.to_string());
    }

    #[test]
    fn adds_a_section_and_keeps_everything_else() {
        check(
            None,
            expect![[r#"
            [tools.greeter]
            reference = "oci://ghcr.io/acme/greeter:1.0"
        "#]],
        );
        check(
            Some("# Ours.\n[tools.notes] # by hand\ncomponent = 'notes.wasm'\n\n[log]\noff = true # for now\n"),
            expect![[r##"
                # Ours.
                [tools.notes] # by hand
                component = 'notes.wasm'

                [tools.greeter]
                reference = "oci://ghcr.io/acme/greeter:1.0"

                [log]
                off = true # for now
            "##]],
        );
        check(
            Some("tools = { notes = { component = 'notes.wasm' } }\n"),
            expect![[r#"
            tools = { notes = { component = 'notes.wasm' } , greeter = { reference = "oci://ghcr.io/acme/greeter:1.0" } }
        "#]],
        );
    }
}
