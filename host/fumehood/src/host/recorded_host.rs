//! A host whose calls are all recorded before they run.

use std::fmt;

use fumehood_core::call::result::CallResult;
use fumehood_core::tool::{PendingCall, Stop, ToolLayer, ToolProvider};

use super::Host;
use crate::events::call_log::CallLog;

/// The tools of a host, with every call recorded before it runs.
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood::event_log::{EventLog, Filter, Options};
/// use fumehood::record::RecordKind;
/// use fumehood::{Call, CallLog, CallLogOptions, Host, Load, RecordedHost, ToolProvider as _};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
/// let host = Host::builder().build()?;
/// host.load(Load::path(path)).await?;
/// let events = Arc::new(EventLog::in_memory(&Options::default())?);
/// let log = CallLog::begin(events.clone(), CallLogOptions::new("my-service")).await?;
///
/// // A provider for a server, or for layers of your own.
/// let tools = RecordedHost::new(host, log.clone());
/// assert!(tools.dispatch(Call::new("calculator__add", r#"{"a": 3, "b": 5}"#).actor("ann")).await.is_ok());
/// log.end("finished").await?;
///
/// let finished = Filter { kind: Some(RecordKind::ToolFinished), ..Filter::default() };
/// assert_eq!(events.reader().query(&finished)?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RecordedHost {
    host: Host,
    log: CallLog,
}

impl fmt::Debug for RecordedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedHost").finish_non_exhaustive()
    }
}

impl RecordedHost {
    /// Records the calls of `host` in `log`.
    #[must_use]
    pub fn new(host: Host, log: CallLog) -> Self {
        Self { host, log }
    }
}

impl ToolLayer for RecordedHost {
    fn inner(&self) -> &dyn ToolProvider {
        &self.host
    }

    async fn handle(&self, call: PendingCall) -> Result<CallResult, Stop> {
        Ok(match call {
            PendingCall::Validated(call, context) => {
                let entry = self.log.entry_of_validated(&call, &context);
                self.host.call_validated_recorded(call, context, entry).await
            }
            PendingCall::Unchecked(call) => {
                let entry = self.log.entry(&call);
                self.host.call_recorded(call, entry).await
            }
        })
    }
}
