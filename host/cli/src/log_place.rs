//! The place of the event log, a file or a PostgreSQL server, and opening it. Every command that needs the log goes through
//! here.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use fumehood::event_log::{EventLog, OpenError, Options, Reader, Retention};
#[cfg(feature = "postgres")]
use fumehood::postgres::Server;
use fumehood::time::Timestamp;

use crate::args::log::{Recording, parse_hex_32};
use crate::config::Config;
use crate::exit::UsageError;
#[cfg(feature = "postgres")]
use crate::storage_server;
use crate::{source, user_folders};

/// The log cannot be opened. The message has a hint on what to type instead.
#[derive(Debug, thiserror::Error)]
#[error("{hint}")]
pub(crate) struct OpenLogError {
    hint: String,
    source: OpenError,
}

/// The place of an event log.
#[derive(Debug, Clone)]
pub(crate) enum LogPlace {
    /// A SQLite file.
    File(PathBuf),
    /// A PostgreSQL server.
    #[cfg(feature = "postgres")]
    Server(Server),
}

impl fmt::Display for LogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            #[cfg(feature = "postgres")]
            Self::Server(server) => f.write_str(server.place()),
        }
    }
}

impl LogPlace {
    /// Returns the files of the log and of its key, which no tool may reach: one that could change them could forge the record
    /// of its own calls.
    pub(crate) fn own_files(&self, options: &Options) -> Vec<PathBuf> {
        let files = match self {
            Self::File(path) => EventLog::files(path),
            #[cfg(feature = "postgres")]
            Self::Server(_) => Vec::new(),
        };
        files.into_iter().chain(options.key_file.clone()).collect()
    }

    /// Returns the file of the log, unless it is on a server.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            #[cfg(feature = "postgres")]
            Self::Server(_) => None,
        }
    }

    /// Returns whether there is certainly no log yet.
    pub(crate) fn is_missing(&self) -> bool {
        match self {
            Self::File(path) => !path.exists(),
            #[cfg(feature = "postgres")]
            Self::Server(_) => false,
        }
    }
}

/// Returns the place of the log: the file that was typed, or else the server or the file of the configuration, or else one in
/// the user's state folder.
///
/// # Errors
/// If there is no home folder, or the settings of the server cannot be used.
pub(crate) fn locate(typed: Option<&Path>, config: &Config) -> Result<LogPlace> {
    if let Some(path) = typed {
        return Ok(LogPlace::File(path.to_owned()));
    }
    #[cfg(feature = "postgres")]
    if let Some(server) = storage_server::of(config)? {
        return Ok(LogPlace::Server(server));
    }
    let configured = config.log.path.as_deref().map(|path| config.path(path));
    configured.or_else(default_path).map(LogPlace::File).ok_or_else(|| {
        UsageError("there is no home folder for the event log; name a file with `--log FILE`".to_owned()).into()
    })
}

/// Returns the place of the log for a command; `None` if its calls are not recorded.
///
/// # Errors
/// Like [`locate`].
pub(crate) fn place_for(typed: &Recording, config: &Config) -> Result<Option<LogPlace>> {
    if typed.no_log || (config.log.off && typed.log.is_none()) {
        return Ok(None);
    }
    locate(typed.log.as_deref(), config).map(Some)
}

/// Returns whether a configuration says where the log is or what its key is, unless a file was typed.
pub(crate) fn is_configured(typed: Option<&Path>, config: &Config) -> bool {
    config.log.key.is_some() || (typed.is_none() && (config.log.path.is_some() || config.has_storage_server()))
}

fn default_path() -> Option<PathBuf> {
    Some(user_folders::state_folder()?.join("events.db"))
}

/// Returns the options for opening the log: its key is in the file that was typed, or else that of the configuration,
/// if it names one. The usual key of a log in a server is in the user's state folder.
///
/// # Errors
/// If the key cannot be read, or is malformed.
pub(crate) fn options(place: &LogPlace, typed: Option<&Path>, config: &Config) -> Result<Options> {
    const WHAT: &str = "[log] key";
    if let Some(file) = typed {
        return Ok(Options { key_file: Some(file.to_owned()), ..Options::default() });
    }
    if let Some(from) = &config.log.key {
        let digits = source::read_secret(config, from, WHAT)?;
        let key = parse_hex_32(&digits).ok_or_else(|| UsageError(format!("{WHAT}: expected 64 hexadecimal digits")))?;
        return Ok(Options { key: Some(key), ..Options::default() });
    }
    Ok(match place {
        LogPlace::File(_) => Options::default(),
        #[cfg(feature = "postgres")]
        LogPlace::Server(_) => Options { key_file: Some(storage_server::key_file()?), ..Options::default() },
    })
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
pub(crate) fn open_read_only(place: &LogPlace, options: &Options) -> Result<Reader> {
    if place.is_missing() {
        return Err(UsageError(format!(
            "no event log at {place}; `fumehood run` and `fumehood call` create it, `--log FILE` names another"
        ))
        .into());
    }
    let opened = match place {
        LogPlace::File(path) => EventLog::open_read_only(path, options),
        #[cfg(feature = "postgres")]
        LogPlace::Server(server) => Reader::open_postgres(server, options),
    };
    opened.map_err(|source| {
        let hint = format!("cannot read the event log {place}; name another with `--log FILE`");
        OpenLogError { hint, source }.into()
    })
}

/// Opens the log for writing. If it does not exist, it is created, readable by its owner alone.
///
/// # Errors
/// If it cannot be opened or created.
pub(crate) fn open(place: &LogPlace, options: &Options) -> Result<EventLog> {
    let opened = match place {
        LogPlace::File(path) => EventLog::open(path, options),
        #[cfg(feature = "postgres")]
        LogPlace::Server(server) => EventLog::open_postgres(server, options),
    };
    opened.map_err(|source| {
        let hint = format!(
            "nothing was run, because it could not be recorded in {place}; name another log with `--log FILE`, or \
             turn it off with `--no-log`"
        );
        OpenLogError { hint, source }.into()
    })
}
