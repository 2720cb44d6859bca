//! The PostgreSQL server of `[storage]`, in which the log, saved sessions and what tools keep are.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use fumehood::postgres::{Server, ServerSettings};
use fumehood_platform::private;

use crate::config::Config;
use crate::exit::UsageError;
use crate::{source, user_folders};

/// Returns the server of a configuration, if it has one. Connects to nothing.
///
/// # Errors
/// If its password or certificates cannot be read.
pub(crate) fn of(config: &Config) -> Result<Option<Server>> {
    const WHAT: &str = "[storage] password";
    let Some(storage) = &config.storage else { return Ok(None) };
    let password = storage.password.as_ref().map(|from| source::read_secret(config, from, WHAT)).transpose()?;
    let roots = storage.tls_roots.as_ref().map(|file| {
        let file = config.path(file);
        std::fs::read(&file).with_context(|| format!("[storage] tls_roots: {} cannot be read", file.display()))
    });
    let settings = ServerSettings {
        url: storage.url.clone(),
        password,
        tls_roots: roots.transpose()?,
        unencrypted: storage.unencrypted,
    };
    Ok(Some(Server::new(&settings).map_err(|error| UsageError(format!("[storage]: {error}")))?))
}

/// Returns the file with the key of this installation, by which its chain of the log is found and sealed. A missing folder is
/// created for its owner only.
///
/// # Errors
/// If there is no home folder, or the folder cannot be created.
pub(crate) fn key_file() -> Result<PathBuf> {
    let missing = "there is no home folder for the key of the event log; name a file with `--log-key FILE`";
    let folder = user_folders::state_folder().ok_or_else(|| UsageError(missing.to_owned()))?;
    if !folder.exists() {
        private::create_folders(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    Ok(folder.join("postgres.key"))
}
