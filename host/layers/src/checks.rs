//! Tools whose calls pass the checks of an operator, and are recorded.

use std::convert::Infallible;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::history::{CallHistories, CallHistory};
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{Call, CallContext};
use fumehood_core::flow::FlowPolicy;
use fumehood_core::policy::call::{
    Answer, Approver, CallChecks, CallQuestion, CheckDelegate, CheckError, Decision, Question,
};
use fumehood_core::telemetry;
use fumehood_core::tool::{PendingCall, Stop, Tool, ToolLayer, ToolProvider, ValidatedCall, unknown_tool};

use crate::record::{CallEntry, CallLog};

/// The tools of a provider, whose calls pass checks. If there is a log, every call is recorded before it runs, with the
/// arguments and the result as the checks leave them.
///
/// Flows of data are judged by the calls of one client: those with the same [history](CallContext::history). Calls without
/// one are judged with all others of the same [actor](CallContext::actor) that have none.
///
/// Programs belong in front of it, so that each of their calls is checked.
pub(crate) struct CheckedTools {
    tools: Arc<dyn ToolProvider>,
    checks: CallChecks,
    log: Option<CallLog>,
    approver: Option<Arc<dyn Approver>>,
    /// The calls of clients without sessions, by their actors.
    actors: CallHistories<Option<Arc<str>>>,
}

impl CheckedTools {
    /// Puts checks in front of these tools.
    pub(crate) fn new(
        tools: Arc<dyn ToolProvider>,
        checks: CallChecks,
        log: Option<CallLog>,
        approver: Option<Arc<dyn Approver>>,
    ) -> Self {
        Self { tools, checks, log, approver, actors: CallHistories::default() }
    }

    /// Runs a call between the checks, and records its start and its end.
    async fn run(&self, call: ValidatedCall, mut context: CallContext, mut entry: Option<CallEntry>) -> CallResult {
        if let Some(entry) = entry.as_ref().filter(|_| context.id.is_empty()) {
            entry.id().clone_into(&mut context.id);
        }
        let id = context.id.clone();
        let tool = call.tool().full_name().to_owned();
        let result = match self.clear(call, &context, entry.as_mut()).await {
            Ok(call) => {
                self.checks.hold_back(call.tool(), &mut context);
                match self.tools.call(call.clone(), context.clone()).await {
                    Ok(result) => self.checks.after(&call, &context, result).await,
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

    /// Takes a call through the checks, and records its start.
    async fn clear(
        &self,
        call: ValidatedCall,
        context: &CallContext,
        entry: Option<&mut CallEntry>,
    ) -> Result<ValidatedCall, CallError> {
        let repairs = call.repairs().to_vec();
        let history = self.history(context);
        let program = context.program.as_deref();
        let mut delegate = StackDelegate { layer: self, history: history.as_deref(), program };
        let call = self.checks.clear(call, context, &mut delegate).await.map_err(CheckError::into_error)?;
        if let Some(entry) = entry {
            entry.repaired(&repairs);
            let started = entry.started(call.arguments(), call.tool().digest()).await;
            started.map_err(|error| CallError::unrecorded(&error))?;
        }
        if let Some(history) = history {
            let name = call.tool().full_name();
            let number = history.start(name);
            program.iter().for_each(|program| program.add(name, number));
        }
        Ok(call)
    }

    /// Returns the history of the caller; `None` if flows are not checked.
    fn history(&self, context: &CallContext) -> Option<Arc<CallHistory>> {
        self.checks.flows.as_ref()?;
        Some(context.history.clone().unwrap_or_else(|| self.actors.of(context.actor.clone())))
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

/// Creates the result of a call that did not run.
fn failed_call(id: String, tool: String, error: CallError) -> CallResult {
    CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() }
}

impl ToolLayer for CheckedTools {
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

/// The part of the checks that depends on the caller of a stack. Decisions are not recorded one by one.
struct StackDelegate<'a> {
    layer: &'a CheckedTools,
    history: Option<&'a CallHistory>,
    program: Option<&'a CallHistory>,
}

impl CheckDelegate for StackDelegate<'_> {
    fn decide_flow(&self, policy: &FlowPolicy, tool: &Tool) -> Decision<Infallible> {
        let judged = self.program.filter(|_| policy.is_per_program()).or(self.history);
        let past = judged.map(CallHistory::past).unwrap_or_default();
        policy.decide(tool, &past, |name| self.layer.tools.find(name))
    }

    fn ask<'a>(&'a mut self, question: &'a CallQuestion) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(async move {
            match &self.layer.approver {
                Some(approver) => Some(approver.ask(Question::Call(question)).await),
                None => None,
            }
        })
    }
}
