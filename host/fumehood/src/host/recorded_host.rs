//! A host whose calls are all recorded before they run.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::result::CallResult;
use fumehood_core::call::{Call, CallContext};
use fumehood_core::tool::{Changes, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall};

use super::Host;
use crate::events::call_log::CallLog;

/// The tools of a host, with every call recorded before it runs.
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

impl ToolProvider for RecordedHost {
    fn kind(&self) -> ProviderKind {
        self.host.kind()
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        self.host.tools()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.host.tool(name)
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let entry = self.log.entry_of_validated(&call, &context);
        Box::pin(async move { Ok(self.host.call_validated_recorded(call, context, entry).await) })
    }

    fn changes(&self) -> Changes {
        self.host.changes()
    }

    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        let entry = self.log.entry(&call);
        Box::pin(self.host.call_recorded(call, entry))
    }
}
