//! The file of the event log: its path, and opening it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use etcetera::BaseStrategy as _;
use fumehood::event_log::{EventLog, OpenError, Options, Reader, Retention};
use fumehood::time::Timestamp;

use crate::args::log::{Recording, parse_hex_32};
use crate::config::Config;
use crate::exit::UsageError;
use crate::source;

/// The log cannot be opened. The message has a hint on what to type instead.
#[derive(Debug, thiserror::Error)]
#[error("{hint}")]
pub(crate) struct OpenLogError {
    hint: String,
    source: OpenError,
}

/// Returns the path of the log: the one that was typed, or else that of the configuration, or else one in the user's
/// state folder.
///
/// # Errors
/// If there is no home folder.
pub(crate) fn locate(typed: Option<&Path>, config: &Config) -> Result<PathBuf> {
    let configured = || config.log.path.as_deref().map(|path| config.path(path));
    typed.map(Path::to_owned).or_else(configured).or_else(default_path).ok_or_else(|| {
        UsageError("there is no home folder to look for the event log in; name it with `--log FILE`".to_owned()).into()
    })
}

/// Returns the path of the log for a command; `None` if its calls are not recorded.
///
/// # Errors
/// Like [`locate`].
pub(crate) fn path_for(typed: &Recording, config: &Config) -> Result<Option<PathBuf>> {
    if typed.no_log || (config.log.off && typed.log.is_none()) {
        return Ok(None);
    }
    locate(typed.log.as_deref(), config).map(Some)
}

fn default_path() -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    let folder = folders.state_dir().unwrap_or_else(|| folders.data_dir());
    Some(folder.join("fumehood").join("events.db"))
}

/// Returns the options for opening the log: its key is in the file that was typed, or else that of the configuration,
/// if it names one.
///
/// # Errors
/// If the key cannot be read, or is malformed.
pub(crate) fn options(typed: Option<&Path>, config: &Config) -> Result<Options> {
    const WHAT: &str = "[log] key";
    if let Some(file) = typed {
        return Ok(Options { key_file: Some(file.to_owned()), ..Options::default() });
    }
    let Some(from) = &config.log.key else { return Ok(Options::default()) };
    let digits = source::read_secret(config, from, WHAT)?;
    let key = parse_hex_32(&digits).ok_or_else(|| UsageError(format!("{WHAT}: expected 64 hexadecimal digits")))?;
    Ok(Options { key: Some(key), ..Options::default() })
}

/// Returns the rules of the configuration for what is kept, as of `now`. All of them have to hold; without any,
/// everything is kept.
pub(crate) fn retention(config: &Config, now: Timestamp) -> Vec<Retention> {
    let since = config.log.keep.map(|age| u64::try_from(age.0.as_millis()).unwrap_or(u64::MAX));
    let since = since.map(|age| Retention::Since(Timestamp(now.0.saturating_sub(age))));
    let newest = config.log.keep_rows.map(|rows| Retention::Newest(rows.0));
    since.into_iter().chain(newest).collect()
}

/// Opens the log for reading.
///
/// # Errors
/// If it does not exist, or cannot be read.
pub(crate) fn open_read_only(path: &Path, options: &Options) -> Result<Reader> {
    if !path.exists() {
        let path = path.display();
        return Err(UsageError(format!(
            "there is no event log at {path}; `fumehood run` and `fumehood call` make one there, `--log FILE` names \
             another"
        ))
        .into());
    }
    let hint = || format!("the event log {} cannot be read; `--log FILE` names another", path.display());
    EventLog::open_read_only(path, options).map_err(|source| OpenLogError { hint: hint(), source }.into())
}

/// Opens the log for writing. If it does not exist, it is created, readable by its owner alone.
///
/// # Errors
/// If it cannot be opened or created.
pub(crate) fn open(path: &Path, options: &Options) -> Result<EventLog> {
    let hint = || {
        let path = path.display();
        format!(
            "nothing was run, because it could not be recorded in {path}; `--log FILE` names another log, `--no-log` keeps none"
        )
    };
    EventLog::open(path, options).map_err(|source| OpenLogError { hint: hint(), source }.into())
}
