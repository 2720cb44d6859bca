//! Trust: a configuration that merely lies in the working folder has no effect before the user has looked at it.
//!
//! Nothing else reads a configuration in order to use it. A file that was named on the command line counts as looked at.

mod store;
mod summary;

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::args::Arguments;
use crate::config::{Config, text_of};
use crate::exit::UntrustedConfigError;
use crate::{question, render};

pub(crate) use store::{TrustStatus, TrustStore};
pub(crate) use summary::{Effect, effects};

/// The variable that names a configuration.
const VARIABLE: &str = "FUMEHOOD_CONFIG";

/// Source of the configuration of a command.
#[derive(Debug, Clone)]
pub(crate) struct ConfigSource {
    named: Option<PathBuf>,
    /// Naming it, or a flag, made it trusted for this run.
    is_trusted: bool,
    may_ask: bool,
}

impl ConfigSource {
    /// The file that was typed, or else the one in the working folder.
    pub(crate) fn of(arguments: &Arguments) -> Self {
        let named = arguments.config.clone();
        Self {
            is_trusted: arguments.trust_config || named.as_deref().is_some_and(is_named_by_hand),
            named,
            may_ask: !arguments.json,
        }
    }

    /// The same without a question: where nobody waits for one.
    pub(crate) fn without_asking(self) -> Self {
        Self { may_ask: false, ..self }
    }

    /// The file, whether or not it is there.
    pub(crate) fn file(&self) -> PathBuf {
        Config::place(self.named.as_deref())
    }

    /// The file that changes when the trust in this one does.
    pub(crate) fn record(&self) -> Option<PathBuf> {
        Some(TrustStore::of_user().ok()?.record_of(&self.file()))
    }

    /// Reads the configuration, if it is trusted; an empty one if there is none. A person at a terminal is asked.
    ///
    /// # Errors
    /// If the file was named and is missing, anything is wrong with it, or it is not trusted.
    pub(crate) fn open(&self) -> Result<Config> {
        let Some((text, config)) = self.read()? else { return Ok(Config::none()) };
        if self.is_trusted {
            return Ok(config);
        }
        let file = self.file();
        let store = TrustStore::of_user()?;
        let status = store.status(&file, &text);
        if status == TrustStatus::Trusted || (self.may_ask && ask(&config, status)?) {
            if status != TrustStatus::Trusted {
                store.trust(&file, &text)?;
            }
            return Ok(config);
        }
        let why = if status == TrustStatus::Changed { "changed since it was trusted" } else { "is not trusted" };
        Err(UntrustedConfigError { file: file.display().to_string(), why }.into())
    }

    /// The same for a command that can do without the configuration: what is not trusted is left out if `is_needed` does
    /// not find anything in it that the command would use.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_if(&self, is_needed: impl FnOnce(&Config) -> bool) -> Result<Config> {
        match self.read()? {
            Some((_, config)) if is_needed(&config) => self.open(),
            _ => Ok(Config::none()),
        }
    }

    fn read(&self) -> Result<Option<(String, Config)>> {
        let file = self.file();
        if self.named.is_none() && !file.exists() {
            return Ok(None);
        }
        // What is judged is what is used: the file is read once.
        let text = text_of(&file)?;
        let config = Config::parse(&file, &text)?;
        Ok(Some((text, config)))
    }
}

/// A variable with a relative path means another file in every folder, so that it does not count.
fn is_named_by_hand(named: &Path) -> bool {
    named.is_absolute() || std::env::var_os(VARIABLE).is_none_or(|variable| Path::new(&variable) != named)
}

/// Asks a person, if there is one to ask.
fn ask(config: &Config, status: TrustStatus) -> Result<bool> {
    if !question::can_ask() {
        return Ok(false);
    }
    let file = config.origin.display();
    let state = if status == TrustStatus::Changed { "changed since you trusted it" } else { "is new here" };
    render::note(&format!("{file} {state}. With it, this command may:"));
    for line in summary::lines(config) {
        render::note(&line);
    }
    question::ask(&format!("Trust {file} as it is now?"))
}

/// Effects of a configuration, as lines for a screen.
pub(crate) fn lines(config: &Config) -> Vec<String> {
    summary::lines(config)
}
