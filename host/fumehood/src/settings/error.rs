//! Errors of settings, and of what they name.

use std::error::Error;

use fumehood_config::json::SettingError;

#[cfg(feature = "agent")]
use crate::agents::AgentError;
use crate::host::BuildError;
use crate::lock::error::LockError;

/// Errors of settings, and of what they name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A setting is unknown, malformed or not possible.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The folder for compiled code cannot be used.
    #[error("invalid `cache`")]
    Cache(#[source] fumehood_runtime::CacheError),
    /// The file with the keys and values of tools cannot be used.
    #[error("invalid `key_value_store`")]
    KeyValueStore(#[source] fumehood_storage::OpenError),
    /// The file with the approvals of components cannot be used.
    #[error("invalid `lock`")]
    Lock(#[source] LockError),
    /// The event log cannot be used.
    #[error("invalid `log`")]
    Log(#[source] fumehood_storage::OpenError),
    /// The event log cannot be read.
    #[error("cannot verify the event log")]
    Verification(#[source] fumehood_storage::event_log::ReadError),
    /// The agent cannot be built.
    #[cfg(feature = "agent")]
    #[error("cannot create the agent")]
    Agent(#[from] AgentError),
    /// The host cannot be built.
    #[error("cannot create the host")]
    Host(#[from] BuildError),
}

impl SettingsError {
    pub(super) fn setting(setting: impl Into<String>, message: impl ToString) -> Self {
        Self::Setting(SettingError::new(setting, message))
    }
}

/// Formats an error with its causes, in one line.
pub(super) fn error_chain(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", error_chain(cause)),
        None => error.to_string(),
    }
}
