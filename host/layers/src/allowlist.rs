//! The tools of a provider that are named: all others do not exist.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::tool::{PendingCall, Stop, ToolLayer, ToolProvider, unknown_tool};

/// The tools of a provider that a list names, by their full names.
pub struct AllowedTools {
    tools: Arc<dyn ToolProvider>,
    names: BTreeSet<String>,
}

impl fmt::Debug for AllowedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllowedTools").field("names", &self.names).finish_non_exhaustive()
    }
}

impl AllowedTools {
    /// Leaves these tools of a provider, by their full names.
    #[must_use]
    pub fn new(tools: Arc<dyn ToolProvider>, names: BTreeSet<String>) -> Self {
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
        if self.offers(call.tool_name()) {
            return call.run(self.inner()).await;
        }
        let error = match &call {
            PendingCall::Validated(..) => CallError::replaced(),
            PendingCall::Unchecked(call) => {
                let known = self.tools();
                unknown_tool(&call.tool, known.iter().map(|tool| tool.full_name()))
            }
        };
        Ok(call.refuse(error))
    }
}
