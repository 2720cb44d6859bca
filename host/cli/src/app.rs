//! The context of one command: its options, and what they name.

use std::cell::OnceCell;

use anyhow::Result;
use fumehood::{HostBuilder, Lock};

use crate::args::Arguments;
use crate::args::log::Recording as RecordingArguments;
use crate::config::Config;
use crate::configured::{self, ConfiguredComponent, Version};
use crate::recording::{EntryPoint, Recording};
use crate::trust::ConfigSource;
use crate::{host, telemetry};

/// The options of a command, with the configuration and the lock that they name. Each file is read once.
pub(crate) struct App<'a> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) source: ConfigSource,
    pub(crate) config: Config,
    lock: OnceCell<Lock>,
}

impl<'a> App<'a> {
    /// Reads the configuration, or uses an empty one if there is none. If it is not trusted, a person at the terminal is
    /// asked whether to trust it.
    ///
    /// # Errors
    /// If the file was named and is missing, or if it cannot be read, is invalid, or is not trusted.
    pub(crate) fn open(arguments: &'a Arguments) -> Result<Self> {
        Self::open_if(arguments, true)
    }

    /// Like [`Self::open`], for a command that reads the configuration only if `is_needed`.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub(crate) fn open_if(arguments: &'a Arguments, is_needed: bool) -> Result<Self> {
        let source = ConfigSource::from_arguments(arguments);
        let config = if is_needed { source.open()? } else { Config::none() };
        Ok(Self { arguments, source, config, lock: OnceCell::new() })
    }

    /// Like [`Self::open`], for a command that can do without the configuration: one that `is_used` rejects is taken as
    /// empty, and need not be trusted.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub(crate) fn open_where(arguments: &'a Arguments, is_used: impl FnOnce(&Config) -> bool) -> Result<Self> {
        let source = ConfigSource::from_arguments(arguments);
        let config = source.open_if(is_used)?;
        Ok(Self { arguments, source, config, lock: OnceCell::new() })
    }

    /// Creates the context of a configuration that was read already.
    pub(crate) fn with_config(arguments: &'a Arguments, config: Config) -> Self {
        let source = ConfigSource::from_arguments(arguments);
        let config = source.with_arguments(config);
        Self { arguments, source, config, lock: OnceCell::new() }
    }

    /// Returns the lock, with the approvals as they were when it was first used.
    ///
    /// # Errors
    /// If the lock cannot be used.
    pub(crate) fn lock(&self) -> Result<&Lock> {
        if let Some(lock) = self.lock.get() {
            return Ok(lock);
        }
        let lock = configured::open_lock(&self.config)?;
        Ok(self.lock.get_or_init(|| lock))
    }

    /// Returns the component of this name, if the configuration has one.
    ///
    /// # Errors
    /// If the lock cannot be used, or something that the component needs is not available.
    pub(crate) async fn component(&self, name: &str, version: Version) -> Result<Option<ConfiguredComponent>> {
        configured::find(&self.config, self.lock()?, name, version).await
    }

    /// Returns all components of the configuration, in the order of their names.
    ///
    /// # Errors
    /// Like [`Self::component`], or if a folder cannot be read.
    pub(crate) async fn components(&self, version: Version) -> Result<Vec<ConfiguredComponent>> {
        configured::all(&self.config, self.lock()?, version).await
    }

    /// Returns the settings of a host for the components of the configuration.
    ///
    /// # Errors
    /// If a store cannot be opened.
    pub(crate) fn host_builder(&self) -> Result<HostBuilder> {
        host::builder_for(self.arguments, &self.config)
    }

    /// Starts the telemetry of this process, and opens the log of its calls; `None` if nothing is to be recorded.
    ///
    /// # Errors
    /// If a setting of telemetry is not possible, or the log cannot be opened or written. Then nothing may run.
    pub(crate) async fn record(
        &self,
        typed: &RecordingArguments,
        entry_point: EntryPoint,
        actor: Option<&str>,
    ) -> Result<Option<Recording>> {
        telemetry::begin(&self.config)?;
        Recording::begin(typed, &self.config, entry_point, actor).await
    }
}
