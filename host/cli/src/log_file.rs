//! Where the event log is, and opening it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use etcetera::BaseStrategy as _;
use fumehood::event_log::{EventLog, OpenError, Options, Reader, Retention};
use fumehood::time::Timestamp;

use crate::args::log::Recording;
use crate::config::Config;
use crate::exit::UsageError;
use crate::{digits, source};

/// The log cannot be opened, and what to type instead.
#[derive(Debug, thiserror::Error)]
#[error("{hint}")]
pub(crate) struct CannotOpen {
    hint: String,
    source: OpenError,
}

/// The log that was typed, or else the one of the configuration, or else the one in the user's state folder.
pub(crate) fn place(typed: Option<&Path>, config: &Config) -> Result<PathBuf> {
    let configured = || config.log.path.as_deref().map(|path| config.path(path));
    typed.map(Path::to_owned).or_else(configured).or_else(usual).ok_or_else(|| {
        UsageError("there is no home folder to look for the event log in; name it with `--log FILE`".to_owned()).into()
    })
}

/// The log file of a command; `None` if its calls are not recorded.
///
/// # Errors
/// If there is no place for it.
pub(crate) fn wanted(typed: &Recording, config: &Config) -> Result<Option<PathBuf>> {
    if typed.no_log || (config.log.off && typed.log.is_none()) {
        return Ok(None);
    }
    place(typed.log.as_deref(), config).map(Some)
}

fn usual() -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    let folder = folders.state_dir().unwrap_or_else(|| folders.data_dir());
    Some(folder.join("fumehood").join("events.db"))
}

/// How it is opened: with the key in the file that was typed, or else that of the configuration, if it names one.
///
/// # Errors
/// If the key is not where the configuration says, or is none.
pub(crate) fn options(typed: Option<&Path>, config: &Config) -> Result<Options> {
    const WHAT: &str = "[log] key";
    if let Some(file) = typed {
        return Ok(Options { key_file: Some(file.to_owned()), ..Options::default() });
    }
    let Some(from) = &config.log.key else { return Ok(Options::default()) };
    let digits = source::secret(config, from, WHAT)?;
    let key = digits::parse(&digits).ok_or_else(|| UsageError(format!("{WHAT}: expected 64 hexadecimal digits")))?;
    Ok(Options { key: Some(key), ..Options::default() })
}

/// What is kept of it, as of `now`: everything that the configuration says has to hold. Empty: all of it.
pub(crate) fn kept(config: &Config, now: Timestamp) -> Vec<Retention> {
    let since = config.log.keep.map(|age| u64::try_from(age.0.as_millis()).unwrap_or(u64::MAX));
    let since = since.map(|age| Retention::Since(Timestamp(now.0.saturating_sub(age))));
    let newest = config.log.keep_rows.map(|rows| Retention::Newest(rows.0));
    since.into_iter().chain(newest).collect()
}

/// Opens it for reading.
pub(crate) fn read(path: &Path, options: &Options) -> Result<Reader> {
    if !path.exists() {
        let path = path.display();
        return Err(UsageError(format!(
            "there is no event log at {path}; `fumehood run` and `fumehood call` make one there, `--log FILE` names \
             another"
        ))
        .into());
    }
    let hint = || format!("the event log {} cannot be read; `--log FILE` names another", path.display());
    EventLog::open_read_only(path, options).map_err(|source| CannotOpen { hint: hint(), source }.into())
}

/// Opens it for writing. One that is not there is made, readable by its owner alone.
pub(crate) fn write(path: &Path, options: &Options) -> Result<EventLog> {
    let hint = || {
        let path = path.display();
        format!(
            "nothing was run, because it could not be recorded in {path}; `--log FILE` names another log, `--no-log` keeps none"
        )
    };
    EventLog::open(path, options).map_err(|source| CannotOpen { hint: hint(), source }.into())
}
