//! Tools whose calls are all recorded before they run.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{Call, CallContext};
use fumehood_core::tool::{Changes, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall, unknown_tool};

use super::call_log::{CallEntry, CallLog};

/// The tools of a provider, with every call recorded before it runs. For a host, see
/// [`RecordedHost`](crate::RecordedHost), which also has the calls that it refuses for want of a place.
#[derive(Clone)]
pub struct RecordedTools {
    tools: Arc<dyn ToolProvider>,
    log: CallLog,
}

impl fmt::Debug for RecordedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedTools").finish_non_exhaustive()
    }
}

impl RecordedTools {
    /// Records the calls of these tools in `log`.
    #[must_use]
    pub fn new(tools: Arc<dyn ToolProvider>, log: CallLog) -> Self {
        Self { tools, log }
    }

    /// Runs a call, and records its start and its end. One whose start cannot be recorded does not run.
    async fn run(&self, call: ValidatedCall, mut context: CallContext, mut entry: CallEntry) -> CallResult {
        if context.id.is_empty() {
            entry.id().clone_into(&mut context.id);
        }
        let (id, tool) = (context.id.clone(), call.tool().full_name().to_owned());
        let result = match entry.started(call.arguments(), call.tool().digest()).await {
            Ok(()) => match self.tools.call(call, context).await {
                Ok(result) => result,
                Err(stop) => failed(id, tool, CallError::new(ErrorKind::ToolFailed, stop.reason)),
            },
            Err(error) => {
                let message = format!("the tool was not called, because that could not be recorded: {error}");
                failed(id, tool, CallError::new(ErrorKind::Host, message))
            }
        };
        entry.ended(&result).await;
        result
    }

    async fn find_and_run(&self, call: Call, entry: CallEntry) -> CallResult {
        let Call { tool: name, arguments, context } = call;
        let validated = match self.tools.find(&name) {
            Some(tool) => tool.validate(arguments).map_err(CallError::from),
            None => {
                let known = self.tools.tools();
                Err(unknown_tool(&name, known.iter().map(|tool| tool.full_name())))
            }
        };
        match validated {
            Ok(call) => self.run(call, context, entry).await,
            Err(error) => {
                let result = failed(context.id, name, error);
                entry.ended(&result).await;
                result
            }
        }
    }
}

/// Creates the result of a call that did not run.
fn failed(id: String, tool: String, error: CallError) -> CallResult {
    CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() }
}

impl ToolProvider for RecordedTools {
    fn kind(&self) -> ProviderKind {
        self.tools.kind()
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        self.tools.tools()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.tools.find(name)
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let entry = self.log.entry_of_validated(&call, &context);
        Box::pin(async move { Ok(self.run(call, context, entry).await) })
    }

    fn changes(&self) -> Changes {
        self.tools.changes()
    }

    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        let entry = self.log.entry(&call);
        Box::pin(self.find_and_run(call, entry))
    }
}
