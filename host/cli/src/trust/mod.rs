//! Trust in configurations: one that merely lies in the working folder has no effect before the user trusts it.
//!
//! A configuration takes effect only through [`ConfigSource`]. A file that is named on the command line counts as
//! trusted.

mod cases;
mod effects;
mod store;

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::args::Arguments;
use crate::config::{self, Config, text_of};
use crate::exit::UntrustedConfigError;
use crate::{question, render};

pub(crate) use cases::{TrustedCases, effects_of_cases, keep_trust, project_of_cases};
pub(crate) use effects::{Effect, effects, lines, wrap};
pub(crate) use store::{TrustStatus, TrustStore};

/// Environment variable that names a configuration.
const CONFIG_VARIABLE: &str = "FUMEHOOD_CONFIG";

/// The source of a command's configuration.
#[derive(Debug, Clone)]
pub(crate) struct ConfigSource {
    named: Option<PathBuf>,
    /// True if it is trusted for this run, because it was named or by a flag.
    is_trusted: bool,
    may_ask: bool,
    offline: bool,
    accept_lock: bool,
}

impl ConfigSource {
    /// Creates the source for the file that was typed, or else for the one in the working folder.
    pub(crate) fn from_arguments(arguments: &Arguments) -> Self {
        let named = arguments.config.clone();
        Self {
            is_trusted: arguments.trust_config || named.as_deref().is_some_and(is_named_by_hand),
            named,
            may_ask: !arguments.json,
            offline: arguments.offline,
            accept_lock: arguments.accept_lock,
        }
    }

    /// Returns this source without questions at the terminal, for use where nobody waits for one.
    pub(crate) fn without_asking(self) -> Self {
        Self { may_ask: false, ..self }
    }

    /// Returns the path of the configuration, whether or not it exists.
    pub(crate) fn file(&self) -> PathBuf {
        Config::place(self.named.as_deref())
    }

    /// Returns the path of the record that changes when the trust in this configuration does.
    pub(crate) fn record_path(&self) -> Option<PathBuf> {
        Some(TrustStore::for_current_user().ok()?.record_path(&self.file()))
    }

    /// Reads the configuration; an empty one if there is none. If it is not trusted, a person at the terminal is asked
    /// whether to trust it.
    ///
    /// # Errors
    /// If the file was named and is missing, or if it cannot be read, is invalid, or is not trusted.
    pub(crate) fn open(&self) -> Result<Config> {
        Ok(self.open_with_text()?.1)
    }

    /// Like [`Self::open`], with the text of the file, to change it.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub(crate) fn open_with_text(&self) -> Result<(Option<String>, Config)> {
        match self.read()? {
            Some((text, config)) => {
                let config = self.check_trust(&text, config)?;
                Ok((Some(text), config))
            }
            None => Ok((None, self.with_arguments(Config::none()))),
        }
    }

    fn check_trust(&self, text: &str, config: Config) -> Result<Config> {
        if self.is_trusted {
            return Ok(config);
        }
        let file = self.file();
        let store = TrustStore::for_current_user()?;
        let status = store.status(&file, text);
        if status == TrustStatus::Trusted || (self.may_ask && ask_for_trust(&config, status)?) {
            if status != TrustStatus::Trusted {
                store.trust(&file, text)?;
            }
            return Ok(config);
        }
        let why = if status == TrustStatus::Changed { "changed since it was trusted" } else { "is not trusted" };
        Err(UntrustedConfigError { file: file.display().to_string(), why }.into())
    }

    /// Like [`Self::open`], for a command that can do without the configuration: one that `is_needed` rejects is not
    /// used, and need not be trusted.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub(crate) fn open_if(&self, is_needed: impl FnOnce(&Config) -> bool) -> Result<Config> {
        match self.read()? {
            Some((_, config)) if is_needed(&config) => self.open(),
            _ => Ok(Config::none()),
        }
    }

    /// Adds what the command line says beside the file.
    pub(crate) fn with_arguments(&self, config: Config) -> Config {
        Config { offline: self.offline, accept_lock: self.accept_lock, ..config }
    }

    fn read(&self) -> Result<Option<(String, Config)>> {
        let file = self.file();
        if self.named.is_none() && !file.exists() {
            return Ok(None);
        }
        // The file is read once, so that the text that is trusted is the text that is used.
        let text = text_of(&file)?;
        let config = self.with_arguments(config::parse(&file, &text)?);
        Ok(Some((text, config)))
    }
}

/// Returns whether the path was typed or is absolute. A relative path in the environment variable means another file in
/// every folder, so it does not count as named.
fn is_named_by_hand(named: &Path) -> bool {
    named.is_absolute() || std::env::var_os(CONFIG_VARIABLE).is_none_or(|variable| Path::new(&variable) != named)
}

/// Asks a person at the terminal whether to trust a configuration; `false` if there is no terminal.
fn ask_for_trust(config: &Config, status: TrustStatus) -> Result<bool> {
    if !question::can_ask() {
        return Ok(false);
    }
    let file = config.origin.display();
    let state = if status == TrustStatus::Changed { "changed since you trusted it" } else { "is new here" };
    render::note(&format!("{file} {state}. With it, this command may:"));
    for line in lines(config) {
        render::note(&line);
    }
    question::ask(&format!("Trust {file} in its current state?"))
}
