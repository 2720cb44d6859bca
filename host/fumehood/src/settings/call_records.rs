//! The event log of a host inside another program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fumehood_core::call::Call;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::record::{RecordError, Recorder};
use fumehood_core::tool::ToolProvider;
use fumehood_layers::{CallLog, CallLogError, CallLogOptions, Stack};
use fumehood_storage::event_log::{EventLog, Options, ReadError, Report};
use tokio::sync::OnceCell;

use super::error::SettingsError;
use crate::host::Host;

/// The origin of the calls in the records.
const ENTRY_POINT: &str = "embedded";

/// The records of the calls of one host. Their session begins with the first call.
#[derive(Debug)]
pub(super) struct CallRecords {
    log: Arc<EventLog>,
    session: OnceCell<CallLog>,
}

impl CallRecords {
    /// Opens the log in a file, or creates it.
    pub(super) fn open(file: &Path, key: &Path) -> Result<Self, SettingsError> {
        let options = Options { key_file: Some(key.to_owned()), ..Options::default() };
        let log = Arc::new(EventLog::open(file, &options).map_err(SettingsError::Log)?);
        Ok(Self { log, session: OnceCell::new() })
    }

    /// Returns the file of the key of a log without another one.
    pub(super) fn key_of(file: &Path) -> PathBuf {
        let mut key = file.as_os_str().to_owned();
        key.push(".key");
        key.into()
    }

    /// Returns the recorder of the log, for sessions of agents.
    #[cfg(feature = "agent")]
    pub(super) fn recorder(&self) -> Arc<dyn Recorder> {
        Arc::clone(&self.log) as _
    }

    /// Makes a call of a component, or of a server in its place, and records it. A call that cannot be recorded does not run.
    pub(super) async fn call(&self, host: &Host, servers: Option<Arc<dyn ToolProvider>>, call: Call) -> CallResult {
        let begin = || CallLog::begin(Arc::clone(&self.log) as Arc<dyn Recorder>, CallLogOptions::new(ENTRY_POINT));
        match self.session.get_or_try_init(begin).await {
            Ok(session) if let Some(servers) = servers => {
                Stack::new().log(Some(session.clone())).around([servers]).dispatch(call).await
            }
            Ok(session) => {
                let entry = session.entry(&call);
                host.call_recorded(call, entry).await
            }
            Err(error) => {
                let error = match error {
                    CallLogError::Record(error) => error,
                    error => RecordError(error.to_string()),
                };
                let outcome = Err(CallError::unrecorded(&error));
                CallResult { id: call.context.id, tool: call.tool, outcome, metadata: Metadata::default() }
            }
        }
    }

    /// Ends the session. Its records are complete without, so that a failure is not reported.
    pub(super) async fn end(&self) {
        if let Some(session) = self.session.get() {
            let _is_complete = session.end("finished").await;
        }
    }

    /// Verifies the log. Blocks on the disk.
    pub(super) fn verify(&self) -> Result<Report, ReadError> {
        self.log.reader().verify(None)
    }
}
