//! Tools whose calls are checked against a policy for flows of data.

use std::sync::Arc;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::history::CallHistories;
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::call::{Call, CallContext};
use fumehood_core::flow::FlowPolicy;
use fumehood_core::policy::call::{Decision, NOBODY_TO_ASK};
use fumehood_core::tool::{PendingCall, Stop, Tool, ToolLayer, ToolProvider};

use crate::record::CallLog;

/// The tools of a provider, whose calls are refused if they would send private data to the public.
///
/// The calls of one client are judged together: those with the same [history](CallContext::history). Calls without one
/// are judged with all others of the same [actor](CallContext::actor) that have none. Nobody is asked here, so a policy that
/// asks refuses with `needs_approval`.
///
/// Programs belong in front of it, so that each of their calls is checked.
pub(crate) struct FlowProvider {
    tools: Arc<dyn ToolProvider>,
    policy: FlowPolicy,
    /// The log of the calls that are refused here. The others are recorded by the tools behind.
    log: Option<CallLog>,
    /// The calls of clients without sessions, by their actors.
    actors: CallHistories<Option<Arc<str>>>,
}

impl FlowProvider {
    /// Puts a policy in front of these tools.
    pub(crate) fn new(tools: Arc<dyn ToolProvider>, policy: FlowPolicy, log: Option<CallLog>) -> Self {
        Self { tools, policy, log, actors: CallHistories::default() }
    }

    /// Checks a call of this tool that is about to start, and adds it to the history unless it is refused. `is_valid`
    /// returns whether the tool will run.
    fn admit(&self, tool: &Tool, context: &CallContext, is_valid: impl FnOnce() -> bool) -> Result<(), CallError> {
        let history = context.history.clone().unwrap_or_else(|| self.actors.of(context.actor.clone()));
        let judged = context.program.as_ref().filter(|_| self.policy.is_per_program()).unwrap_or(&history);
        match self.policy.decide(tool, &judged.past(), |name| self.tools.find(name)) {
            Decision::Allow => {}
            Decision::Rewrite { to, .. } => match to {},
            Decision::Deny { error } => {
                let message = format!("denied by flows: {}", error.message);
                return Err(CallError { message: message.into(), ..error });
            }
            Decision::Ask { question } => {
                let message = format!("this call needs approval: {question}");
                return Err(CallError::new(ErrorKind::NeedsApproval, message).with_hint(NOBODY_TO_ASK));
            }
        }
        let name = tool.full_name();
        // A call that the gate refuses reads nothing. It is looked at once for each tool and session.
        if history.contains(name) || is_valid() {
            let number = history.start(name);
            if let Some(program) = &context.program {
                program.add(name, number);
            }
        }
        Ok(())
    }

    /// Returns the result of a call that was refused here, and records it.
    async fn refuse(&self, call: Call, error: CallError) -> CallResult {
        let entry = self.log.as_ref().map(|log| log.entry(&call));
        let result = PendingCall::Unchecked(call).refuse(error);
        if let Some(entry) = entry {
            entry.ended(&result).await;
        }
        result
    }
}

impl ToolLayer for FlowProvider {
    fn inner(&self) -> &dyn ToolProvider {
        &*self.tools
    }

    async fn handle(&self, call: PendingCall) -> Result<CallResult, Stop> {
        let admitted = match &call {
            PendingCall::Validated(call, context) => self.admit(call.tool(), context, || true),
            PendingCall::Unchecked(call) => match self.tools.find(&call.tool) {
                Some(tool) => {
                    let is_valid = || tool.validate_for(call.arguments.clone(), &call.context).is_ok();
                    self.admit(&tool, &call.context, is_valid)
                }
                None => Ok(()),
            },
        };
        match admitted {
            Ok(()) => call.run(self.inner()).await,
            Err(error) => Ok(self.refuse(call.into_unchecked(), error).await),
        }
    }
}
