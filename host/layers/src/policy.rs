//! Tools whose calls pass policies, the questions of policies to a person, and records.

use std::sync::Arc;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{Call, CallContext};
use fumehood_core::policy::call::{Answer, Approver, CallQuestion, NOBODY_TO_ASK, Policies, Question};
use fumehood_core::telemetry;
use fumehood_core::tool::{PendingCall, Stop, ToolLayer, ToolProvider, ValidatedCall, unknown_tool};

use crate::record::{CallEntry, CallLog};

/// The tools of a provider, whose calls pass policies. If there is a log, every call is recorded before it runs, with the
/// arguments and the result as the policies leave them.
pub(crate) struct HookedTools {
    pub(crate) tools: Arc<dyn ToolProvider>,
    pub(crate) hooks: Policies,
    pub(crate) log: Option<CallLog>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
}

impl HookedTools {
    /// Runs a call between the hooks, and records its start and its end.
    async fn run(&self, call: ValidatedCall, mut context: CallContext, mut entry: Option<CallEntry>) -> CallResult {
        if let Some(entry) = entry.as_ref().filter(|_| context.id.is_empty()) {
            entry.id().clone_into(&mut context.id);
        }
        let id = context.id.clone();
        let tool = call.tool().full_name().to_owned();
        let result = match self.clear(call, &context, entry.as_mut()).await {
            Ok(call) => {
                self.hooks.hold_back(call.tool(), &mut context);
                match self.tools.call(call.clone(), context.clone()).await {
                    Ok(result) => self.hooks.after(&call, &context, result).await,
                    Err(stop) => failed_call(id, tool, CallError::new(ErrorKind::ToolFailed, stop.reason)),
                }
            }
            Err(error) => failed_call(id, tool, error),
        };
        if let Some(entry) = entry {
            entry.ended(&result).await;
        }
        result
    }

    /// Takes a call past the hooks and the person whom they ask, and records its start.
    async fn clear(
        &self,
        call: ValidatedCall,
        context: &CallContext,
        entry: Option<&mut CallEntry>,
    ) -> Result<ValidatedCall, CallError> {
        let repairs = call.repairs().to_vec();
        let cleared = self.hooks.before(call, context).await?;
        for question in &cleared.questions {
            let approver = self.approver.as_ref().ok_or_else(|| unanswered(question))?;
            match approver.ask(Question::Call(question)).await {
                Answer::Allow => {}
                Answer::Deny { .. } => {
                    let message = format!("a person denied this call after a question by {}", question.from);
                    return Err(CallError::new(ErrorKind::Denied, message));
                }
                Answer::Defer => return Err(unanswered(question)),
            }
        }
        if let Some(entry) = entry {
            entry.repaired(&repairs);
            let started = entry.started(cleared.call.arguments(), cleared.call.tool().digest()).await;
            started.map_err(|error| {
                let message = format!("the tool was not called, because the call could not be recorded: {error}");
                CallError::new(ErrorKind::Host, message)
            })?;
        }
        Ok(cleared.call)
    }

    async fn find_and_run(&self, call: Call, entry: Option<CallEntry>) -> CallResult {
        let Call { tool: name, arguments, context } = call;
        let validated = match self.tools.find(&name) {
            Some(tool) => tool.validate_for(arguments, &context).map_err(CallError::from),
            None => {
                let known = self.tools.tools();
                Err(unknown_tool(&name, known.iter().map(|tool| tool.full_name())))
            }
        };
        match validated {
            Ok(call) => {
                telemetry::emit_repairs(&call);
                self.run(call, context, entry).await
            }
            Err(error) => {
                let result = failed_call(context.id, name, error);
                if let Some(entry) = entry {
                    entry.ended(&result).await;
                }
                result
            }
        }
    }
}

/// Returns the error of a call about which nobody can be asked.
fn unanswered(question: &CallQuestion) -> CallError {
    let message = format!("{} requires a person's approval of this call: {}", question.from, question.question);
    CallError::new(ErrorKind::NeedsApproval, message).with_hint(NOBODY_TO_ASK)
}

/// Creates the result of a call that did not run.
fn failed_call(id: String, tool: String, error: CallError) -> CallResult {
    CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() }
}

impl ToolLayer for HookedTools {
    fn inner(&self) -> &dyn ToolProvider {
        &*self.tools
    }

    async fn handle(&self, call: PendingCall) -> Result<CallResult, Stop> {
        Ok(match call {
            PendingCall::Validated(call, context) => {
                let entry = self.log.as_ref().map(|log| log.entry_of_validated(&call, &context));
                self.run(call, context, entry).await
            }
            PendingCall::Unchecked(call) => {
                let entry = self.log.as_ref().map(|log| log.entry(&call));
                self.find_and_run(call, entry).await
            }
        })
    }
}
