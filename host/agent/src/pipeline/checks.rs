//! The checks that a call passes before it may run: resolve, allowlist, schema, and those of every face.

use std::convert::Infallible;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::result::CallError;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::chat::Usage;
use fumehood_core::flow::FlowPolicy;
use fumehood_core::panic::catch_panic_sync;
use fumehood_core::policy::call::{Answer, CallQuestion, Check, CheckDelegate, CheckError, Decision, Verdict};
use fumehood_core::record::RecordKind;
use fumehood_core::schema::gate::RepairPolicy;
use fumehood_core::telemetry;
use fumehood_core::tool::{InvalidCall, NameForm, Tool, ToolAliases, ValidatedCall};
use serde_json::{Map, Value, json};

use super::abort::{
    Abort, not_allowed, not_recorded, not_shown, printable_name, schema_mismatch, unauthorized, unknown_tool,
};
use super::dispatch::Dispatch;
use crate::code::RUN_CODE;
use crate::execution::Status;
use crate::registry::{RegisteredTool, ToolPolicy};
use crate::tool_search::{SEARCH_TOOLS, SearchTool};

/// A call that passed every check and may run.
pub(super) struct AuthorizedCall {
    pub(super) found: RegisteredTool,
    pub(super) call: ValidatedCall,
    pub(super) context: CallContext,
    pub(super) policy: ToolPolicy,
}

impl Dispatch<'_> {
    /// Takes a call through all checks.
    pub(super) async fn check(&mut self) -> Result<AuthorizedCall, Abort> {
        let name = self.call.name.clone();
        let printable = || printable_name(&name);
        let found = self.find(&name);
        // Set before the first refusal, because a refusal is recorded too.
        let policy = found.as_ref().map(|found| self.config.policy(found));
        let policy = policy.unwrap_or_else(|| self.config.agent_policy.clone());
        self.persist = policy.persist.clone().unwrap_or_default();
        // Checked before anything depends on whether the tool exists: a tool out of reach must look as if it did not
        // exist.
        if !self.batch.allows_directly(self.config, &name) {
            return Err(self.only_in_programs(&printable()));
        }
        if !self.batch.allows(self.config, &name) {
            let printable = printable();
            return Err(not_allowed(&printable, &self.allowed_names(), self.batch.allowed.refusal_message(&printable)));
        }
        let Some(found) = found else {
            return Err(unknown_tool(&printable(), &self.allowed_names(), self.config.catalogue.is_some()));
        };
        if !self.is_visible(&found.tool) {
            return Err(not_shown(&printable()));
        }
        self.journal.set_tool(&name, found.tool.digest());
        let call = validate_arguments(&found, &self.call.arguments, self.config.repairs.as_deref())?;
        telemetry::emit_repairs(&call);
        self.repairs = call.repairs().to_vec();
        let context = self.context();
        let checks = &self.config.checks;
        let cleared =
            Box::pin(checks.clear(call, &context, &mut DispatchDelegate { dispatch: self, found: &found })).await;
        match cleared {
            Ok(call) => Ok(AuthorizedCall { found, call, context, policy }),
            Err(CheckError::Refused { by, error }) => Err(Abort::refusal(status_of_refusal(by), error)),
            Err(CheckError::Unanswered(question)) => Err(Abort::refusal(Status::RejectedDenied, question.unanswered())),
            Err(CheckError::Deferred(question)) => Err(self.defer(&found.tool, *question).await),
        }
    }

    /// Finds the tool of this full name: one of a provider, one of code mode, or the search within the allowlist of the
    /// batch. Programs do not find the tools of code mode.
    fn find(&self, name: &str) -> Option<RegisteredTool> {
        match self.config.catalogue.as_ref().filter(|_| !self.batch.is_of_implementation()) {
            Some(catalogue) if name == SEARCH_TOOLS => {
                let allowed = Arc::clone(&self.batch.allowed);
                let search = SearchTool::new(Arc::clone(catalogue), move |name: &str| allowed.allows(name));
                Some(RegisteredTool::from_function(Arc::new(search)))
            }
            _ => {
                let code = self.batch.code(self.config).filter(|_| !self.batch.is_program());
                code.and_then(|code| code.find(name)).or_else(|| self.config.registry.find(name))
            }
        }
    }

    /// Returns the full name of the tool that the name in the call means, if it is another one: see
    /// [`ToolAliases::resolve`]. Only tools that the model may call have aliases, so that nobody learns of the others.
    pub(super) fn resolve_alias(&self) -> Option<String> {
        let name = self.call.name.as_str();
        if self.find(name).is_some() {
            return None;
        }
        let tools = self.config.registry.tools();
        let may_call =
            |name: &str| self.batch.allows_directly(self.config, name) && self.batch.allows(self.config, name);
        let of_registry = tools.iter().filter(|tool| may_call(tool.full_name()) && self.is_visible(tool));
        let of_registry = of_registry.map(|tool| (tool.full_name(), tool.alias()));
        let of_pipeline =
            [RUN_CODE, SEARCH_TOOLS].into_iter().filter(|name| may_call(name) && self.find(name).is_some());
        let names = of_registry.chain(of_pipeline.map(|name| (name, None)));
        ToolAliases::new(names, NameForm::Portable).resolve(name).map(str::to_owned)
    }

    /// Returns whether the model knows the tool: it is listed from the start, or was shown before this batch.
    fn is_visible(&self, tool: &Tool) -> bool {
        let is_listed = self.config.catalogue.as_ref().is_none_or(|catalogue| catalogue.is_listed(tool));
        is_listed || self.batch.is_of_implementation() || self.batch.was_shown(tool.full_name())
    }

    /// Returns the names of the tools that may be called.
    fn allowed_names(&self) -> Vec<String> {
        let tools = self.config.registry.tools();
        let is_known = |tool: &&Arc<Tool>| self.batch.allows(self.config, tool.full_name()) && self.is_visible(tool);
        tools.iter().filter(is_known).map(|tool| tool.full_name().to_owned()).collect()
    }

    fn context(&self) -> CallContext {
        CallContext {
            id: self.call.id.clone(),
            execution: Some(Arc::from(self.execution())),
            actor: self.batch.scope.actor.clone(),
            state: self.batch.scope.state.clone(),
            step: Some(self.batch.step.clone()),
            ..CallContext::default()
        }
    }
}

/// The part of the checks that a dispatch adds: the history of its session, its records, and answers that were given
/// before.
struct DispatchDelegate<'d, 'a> {
    dispatch: &'d mut Dispatch<'a>,
    found: &'d RegisteredTool,
}

impl CheckDelegate for DispatchDelegate<'_, '_> {
    fn decide_flow(&self, policy: &FlowPolicy, tool: &Tool) -> Decision<Infallible> {
        if self.found.is_of_pipeline() {
            // Programs and searches read and send nothing themselves.
            return Decision::Allow;
        }
        let find = |name: &str| self.dispatch.config.registry.find(name).map(|found| found.tool);
        policy.decide(tool, &self.dispatch.batch.calls_before(policy), find)
    }

    fn authorize(&self, call: &ValidatedCall) -> Result<(), CallError> {
        let actor = self.dispatch.batch.scope.actor.as_deref();
        match catch_panic_sync(|| self.found.authorize(actor, call)) {
            Ok(true) => Ok(()),
            // A check that panics has not allowed the call.
            Ok(false) | Err(_) => Err(unauthorized(self.found.tool.full_name())),
        }
    }

    fn accepts(&self, call: &ValidatedCall) -> Result<(), String> {
        catch_panic_sync(|| self.found.accepts(call)).unwrap_or_else(Err)
    }

    fn skip_questions(&self) -> Result<(), CallError> {
        self.dispatch.check_refusal()
    }

    fn record<'a>(&'a mut self, verdict: Verdict<'a>) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(self.dispatch.record_verdict(verdict))
    }

    fn ask<'a>(&'a mut self, question: &'a CallQuestion) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(self.dispatch.ask_approver(&self.found.tool, question))
    }
}

impl Dispatch<'_> {
    /// Records a decision, and notes what it used and changed. Hooks leave no verdicts: the call is refused, or starts with
    /// a note.
    async fn record_verdict(&mut self, verdict: Verdict<'_>) -> Result<(), CallError> {
        self.batch.add_usage(verdict.usage);
        // A call that a hook changed goes through the rules twice.
        self.notes.extend(verdict.note().filter(|note| !self.notes.contains(note)));
        if verdict.check == Check::Hook {
            return Ok(());
        }
        let Verdict { by, decision, reason, arguments, usage, .. } = verdict;
        let body = || {
            let mut body = Map::from_iter([("by".to_owned(), Value::from(by))]);
            body.extend(reason.map(|reason| ("reason".to_owned(), Value::from(reason))));
            let tokens = (usage != Usage::default()).then(|| json!({"input": usage.input, "output": usage.output}));
            body.extend(tokens.map(|tokens| ("usage".to_owned(), tokens)));
            let arguments = catch_panic_sync(|| self.persist.arguments(arguments)).unwrap_or_default();
            body.extend(arguments.map(|arguments| ("arguments".to_owned(), arguments)));
            Value::Object(body)
        };
        self.journal.record(RecordKind::Verdict, Some(decision), body).await.map_err(|error| not_recorded(&error))
    }
}

/// Returns the status of a call that a check refused.
fn status_of_refusal(by: Check) -> Status {
    match by {
        Check::Authorization => Status::RejectedUnauthorized,
        Check::Rule | Check::Flow | Check::Person => Status::RejectedDenied,
        Check::Hook => Status::Blocked,
    }
}

/// Checks arguments against the schema and the tool's own type.
fn validate_arguments(
    found: &RegisteredTool,
    given: &str,
    repairs: Option<&RepairPolicy>,
) -> Result<ValidatedCall, Abort> {
    let schema = found.tool.input_schema();
    let call = found.tool.validate_with(Arguments::Text(given.to_owned()), repairs).map_err(|error| match error {
        InvalidCall::Withheld(refusal) => Abort::refusal(Status::RejectedDenied, refusal),
        error => {
            let given = serde_json::from_str(given).ok();
            let mismatch = schema_mismatch(schema, given.as_ref(), &error.to_string());
            Abort::refusal(Status::RejectedSchema, mismatch)
        }
    })?;
    match catch_panic_sync(|| found.accepts(&call)).unwrap_or_else(Err) {
        Ok(()) => Ok(call),
        Err(problem) => {
            let mismatch = schema_mismatch(schema, Some(call.arguments()), &problem);
            Err(Abort::refusal(Status::RejectedSchema, mismatch))
        }
    }
}
