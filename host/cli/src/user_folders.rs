//! The user's folders: state, caches, and the files that are kept in them by default.

use std::path::{Path, PathBuf};

use anyhow::Result;
use etcetera::BaseStrategy as _;
use fumehood::Digest;

use crate::config::Config;
use crate::exit::UsageError;

/// Returns the file in which a component of the command line keeps keys and values: one for each path, because two
/// components of one name are unrelated.
///
/// # Errors
/// If there is no home folder.
pub(crate) fn store_of(component: &Path) -> Result<PathBuf, UsageError> {
    let missing = "there is no home folder for the key-value store; name a file with `--key-value-store FILE`";
    let place = component.canonicalize().unwrap_or_else(|_| component.to_owned());
    store_file(&place).ok_or_else(|| UsageError(missing.to_owned()))
}

/// Returns the store of the configuration or the component at this path.
fn store_file(place: &Path) -> Option<PathBuf> {
    state_file("key-value", place)
}

/// Returns the database of this kind for the file at `place`.
fn state_file(kind: &str, place: &Path) -> Option<PathBuf> {
    let digest = Digest::of(place.as_os_str().as_encoded_bytes()).hex();
    let name = format!("{}.db", digest.get(..16).unwrap_or(&digest));
    Some(state_folder()?.join(kind).join(name))
}

/// Returns the file with what the tenants of a configuration used.
///
/// # Errors
/// If there is no home folder.
pub(crate) fn usage_of(config: &Config) -> Result<PathBuf, UsageError> {
    let missing = "there is no home folder for budgets of tenants; set HOME or XDG_STATE_HOME";
    let origin = config.origin.canonicalize().unwrap_or_else(|_| config.origin.clone());
    state_file("usage", &origin).ok_or_else(|| UsageError(missing.to_owned()))
}

/// Returns the file with the jobs of clients of the servers of a configuration; `None` if there is no home folder.
pub(crate) fn jobs_of(config: &Config) -> Option<PathBuf> {
    let origin = config.origin.canonicalize().or_else(|_| std::path::absolute(&config.origin));
    state_file("jobs", &origin.unwrap_or_else(|_| config.origin.clone()))
}

/// Returns the default store of a configuration: one for each, so that a tool never finds what a tool of the same name
/// in another configuration kept.
pub(crate) fn default_store(config: &Config) -> Result<PathBuf> {
    let origin = config.origin.canonicalize().unwrap_or_else(|_| config.origin.clone());
    let missing = "there is no home folder for key-value stores; set `key_value_store`";
    Ok(store_file(&origin).ok_or_else(|| UsageError(missing.to_owned()))?)
}

/// Returns the folder of the command's own state, which must be neither lost nor edited.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let strategy = etcetera::choose_base_strategy().ok()?;
    Some(strategy.state_dir().unwrap_or_else(|| strategy.data_dir()).join("fumehood"))
}

/// Returns the file with the tokens of a login at an MCP server, one for each server of each configuration; `None` without
/// a home folder.
pub(crate) fn login_of(config: &Config, server: &str, url: &str) -> Option<PathBuf> {
    let origin = config.origin.canonicalize().unwrap_or_else(|_| config.origin.clone());
    let identity = [origin.as_os_str().as_encoded_bytes(), server.as_bytes(), url.as_bytes()].join(&0);
    let digest = Digest::of(&identity).hex();
    Some(state_folder()?.join("logins").join(format!("{}.json", digest.get(..32).unwrap_or(&digest))))
}

/// Returns the folder that the program of a server has as its home, one for each server of each configuration; `None`
/// without a home folder.
pub(crate) fn home_of_server(config: &Config, server: &str) -> Option<PathBuf> {
    let origin = config.origin.canonicalize().unwrap_or_else(|_| config.origin.clone());
    let identity = [origin.as_os_str().as_encoded_bytes(), server.as_bytes()].join(&0);
    let digest = Digest::of(&identity).hex();
    Some(state_folder()?.join("servers").join(format!("{server}-{}", digest.get(..16).unwrap_or(&digest))))
}

/// Returns the folder that a server of an MCP client, which starts it through `fumehood jail`, has as its home; `None`
/// without a home folder.
pub(crate) fn home_of_client_server(server: &str) -> Option<PathBuf> {
    let digest = Digest::of(server.as_bytes()).hex();
    Some(state_folder()?.join("servers").join(format!("client-{}", digest.get(..16).unwrap_or(&digest))))
}

/// Returns the folder of installed packages of npm and PyPI; `None` without a home folder.
pub(crate) fn packages() -> Option<PathBuf> {
    Some(state_folder()?.join("packages"))
}

/// Returns the folder of the records of this user's approvals; `None` without a home folder.
pub(crate) fn approvals() -> Option<PathBuf> {
    Some(state_folder()?.join("approvals"))
}

/// Returns the default folder for compiled code.
pub(crate) fn default_cache() -> Option<PathBuf> {
    Some(caches()?.join("code"))
}

/// Returns the folder in which `build` compiles projects in Rust; `None` without a home folder.
pub(crate) fn compiled_crates() -> Option<PathBuf> {
    Some(caches()?.join("rust"))
}

/// Returns the folder with the interpreters of `dev`; `None` without a home folder.
pub(crate) fn interpreters() -> Option<PathBuf> {
    Some(caches()?.join("interpreters"))
}

fn caches() -> Option<PathBuf> {
    Some(etcetera::choose_base_strategy().ok()?.cache_dir().join("fumehood"))
}

/// Returns the folder of the store of components.
///
/// # Errors
/// If there is no home folder.
pub(crate) fn component_store() -> Result<PathBuf, UsageError> {
    let missing = "there is no home folder for components of registries; set HOME or XDG_STATE_HOME";
    Ok(state_folder().ok_or_else(|| UsageError(missing.to_owned()))?.join("store"))
}

/// Returns the folder of components that were fetched over a cell; `None` without a home folder.
#[cfg(feature = "cell")]
pub(crate) fn fetched_components() -> Option<PathBuf> {
    Some(state_folder()?.join("components"))
}

/// Returns the folder in which the times of the newest indexes are remembered.
///
/// # Errors
/// If there is no home folder.
pub(crate) fn index_history() -> Result<PathBuf, UsageError> {
    let missing = "there is no home folder for indexes; set HOME or XDG_STATE_HOME";
    Ok(state_folder().ok_or_else(|| UsageError(missing.to_owned()))?.join("indexes"))
}
