//! Records of the calls of commands that have no agent: `call`, `serve` and `mcp call`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::agent::pipeline::Modes;
use fumehood::event_log::{EventLog, Options, Retention};
use fumehood::listener::LogBudget;
use fumehood::record::{Durability, Recorder};
use fumehood::{CallLog, CallLogOptions, HostBuilder, LoggedCalls};

use crate::args::log::Recording as RecordingArguments;
use crate::config::Config;
use crate::log_space::LogSpace;
use crate::persist_rules::PersistRules;
use crate::{log_place, moment, render};

/// Maximum time that a call of a server waits until its start, or its end, is recorded, while nothing is written at all: calls
/// are refused while the disk or the database hangs.
const RECORD_TIMEOUT: Duration = Duration::from_secs(1);

const UNSAVED: &str = "the call has ended, but some records are missing in the event log";

/// The commands that record calls without an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryPoint {
    Call,
    McpCall,
    Serve,
    ServeHttp,
    ServeMcp,
}

impl EntryPoint {
    /// Returns the name in records.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::McpCall => "mcp call",
            Self::Serve => "serve",
            Self::ServeHttp => "serve http",
            Self::ServeMcp => "serve mcp",
        }
    }
}

/// An open log and the session of this command in it.
pub(crate) struct Recording {
    log: Arc<EventLog>,
    calls: CallLog,
    persist: PersistRules,
    retention: Vec<Retention>,
    /// The files of the log and its key, which no tool may reach.
    files: Vec<PathBuf>,
    /// `None` if the log is on a server.
    space: Option<Arc<LogSpace>>,
}

impl Recording {
    /// Opens the log and begins a session; `None` if nothing is to be recorded.
    ///
    /// # Errors
    /// If the log cannot be opened or written. Then nothing may run.
    pub(crate) async fn begin(
        typed: &RecordingArguments,
        config: &Config,
        entry_point: EntryPoint,
        actor: Option<&str>,
    ) -> Result<Option<Self>> {
        let Some(place) = log_place::place_for(typed, config)? else { return Ok(None) };
        let is_single_call = matches!(entry_point, EntryPoint::Call | EntryPoint::McpCall);
        let options = log_place::options(&place, typed.log_key.as_deref(), config)?;
        let record_timeout = if is_single_call { options.record_timeout } else { RECORD_TIMEOUT };
        let options = Options { keep_journal: is_single_call, record_timeout, ..options };
        let files = place.own_files(&options);
        let space = place.file().map(LogSpace::of);
        let log = Arc::new(log_place::open(&place, &options)?);
        let persist = PersistRules::default();
        persist.update(config);
        let rules = persist.clone();
        let options = CallLogOptions {
            actor: actor.map(str::to_owned),
            durability: durability(config),
            is_single_call,
            persist: Arc::new(move |tool| rules.get(tool)),
            ..CallLogOptions::new(entry_point.as_str())
        };
        let calls = CallLog::begin(Arc::clone(&log) as Arc<dyn Recorder>, options).await?;
        let retention = log_place::retention(config, moment::now());
        Ok(Some(Self { log, calls, persist, retention, files, space: space.map(Arc::new) }))
    }

    /// Returns the calls of this log that came over HTTP, for its clients.
    pub(crate) fn served_calls(&self) -> LoggedCalls {
        LoggedCalls::new(Arc::clone(&self.log), &[EntryPoint::Serve.as_str(), EntryPoint::ServeHttp.as_str()])
    }

    /// Returns all calls of this log, for its operator.
    pub(crate) fn all_calls(&self) -> LoggedCalls {
        LoggedCalls::for_operator(Arc::clone(&self.log))
    }

    /// Returns the log itself.
    pub(crate) fn event_log(&self) -> &Arc<EventLog> {
        &self.log
    }

    /// Returns the log that calls are recorded in.
    pub(crate) fn calls(&self) -> &CallLog {
        &self.calls
    }

    /// Returns the rules, to update them when the configuration changes.
    pub(crate) fn persist(&self) -> &PersistRules {
        &self.persist
    }

    /// Returns the room of tenants in this log.
    pub(crate) fn budget(&self) -> LogBudget {
        let persist = self.persist.clone();
        let space = self.space.clone();
        let is_scarce = move || space.as_ref().is_some_and(|space| space.is_scarce());
        LogBudget::new(move |tool| persist.get(tool).is_full(), is_scarce)
    }

    /// Keeps the log and its key from every tool: one that could change them could forge the record of its own calls.
    pub(crate) fn protect(&self, mut builder: HostBuilder) -> HostBuilder {
        for file in &self.files {
            builder = builder.own_folder(file);
        }
        builder
    }

    /// Ends the session, and waits until all of it is on disk. Records that the configuration does not keep are
    /// removed.
    ///
    /// # Errors
    /// If not all of it can be written.
    pub(crate) async fn end(self, status: &str) -> Result<()> {
        // First what waits, so that the end is not refused because of it.
        self.log.flush().await.context(UNSAVED)?;
        self.calls.end(status).await.context(UNSAVED)?;
        self.log.flush().await.context(UNSAVED)?;
        for keep in self.retention {
            // Old records can be removed at the end of another session; the new ones are safe.
            if let Err(error) = self.log.retain(keep).await {
                render::warning(&format!("old records were not removed: {error}"));
                break;
            }
        }
        Ok(())
    }
}

/// Returns how long calls wait for their records.
pub(crate) fn durability(config: &Config) -> Durability {
    match config.agent.durable {
        Some(true) => Durability::Durable,
        Some(false) => Durability::Queued,
        None => Modes::default().durability,
    }
}
