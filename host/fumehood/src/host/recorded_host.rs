//! A host whose calls are all recorded before they run.

use std::sync::Arc;

use fumehood_core::call::result::CallResult;
use fumehood_core::tool::{PendingCall, Stop, ToolLayer, ToolProvider};
use fumehood_layers::{CallLog, RecordingProvider};

use super::Host;

/// The tools of a host, with every call recorded before it runs.
struct RecordedHost {
    host: Host,
    log: CallLog,
}

impl RecordingProvider for Host {
    fn recorded(&self, log: CallLog) -> Arc<dyn ToolProvider> {
        Arc::new(RecordedHost { host: self.clone(), log })
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
