//! The tools of a provider that are named: all others are not listed or found.

use std::collections::BTreeSet;
use std::sync::Arc;

use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::tool::{PendingCall, Stop, ToolLayer, ToolProvider};

/// The tools of a provider that a list names, by their full names.
pub(crate) struct AllowedTools {
    tools: Arc<dyn ToolProvider>,
    names: BTreeSet<String>,
}

impl AllowedTools {
    /// Leaves these tools of a provider, by their full names.
    pub(crate) fn new(tools: Arc<dyn ToolProvider>, names: BTreeSet<String>) -> Self {
        Self { tools, names }
    }
}

impl ToolLayer for AllowedTools {
    fn inner(&self) -> &dyn ToolProvider {
        &*self.tools
    }

    fn offers(&self, tool: &str) -> bool {
        self.names.contains(tool)
    }

    async fn handle(&self, call: PendingCall) -> Result<CallResult, Stop> {
        match &call {
            PendingCall::Validated(..) if !self.offers(call.tool_name()) => Ok(call.refuse(CallError::replaced())),
            // A server looks names up in the list first, and reads resources with tools that no list has.
            _ => call.run(self.inner()).await,
        }
    }
}
