//! The checks that a call passes before it may run: resolve, allowlist, schema, authorize, guardrails, flows.

use std::borrow::Cow;
use std::sync::Arc;

use fumehood_core::call::result::CallError;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::chat::Usage;
use fumehood_core::policy::call::{CallQuestion, Decision, Policy, ProposedCall, Ruling};
use fumehood_core::record::RecordKind;
use fumehood_core::schema::gate::RepairPolicy;
use fumehood_core::telemetry;
use fumehood_core::tool::{InvalidCall, NameForm, Tool, ToolAliases, ValidatedCall};
use serde_json::{Map, Value, json};

use super::abort::{Abort, not_allowed, not_shown, printable_name, schema_mismatch, unauthorized, unknown_tool};
use super::dispatch::Dispatch;
use crate::catch_panic::{catch_panic, catch_panic_sync};
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
    /// Takes a call through all checks, with the arguments that the model wrote unless they were changed.
    pub(super) async fn check(&mut self, name: &str, changed: Option<Value>) -> Result<AuthorizedCall, Abort> {
        let printable = || printable_name(name);
        let found = self.find(name);
        // Set before the first refusal, because a refusal is recorded too.
        let policy = found.as_ref().map(|found| self.config.policy(found));
        let policy = policy.unwrap_or_else(|| self.config.agent_policy.clone());
        self.persist = policy.persist.clone().unwrap_or_default();
        // Checked before anything depends on whether the tool exists: a tool out of reach must look as if it did not
        // exist.
        if !self.batch.allows_directly(self.config, name) {
            return Err(self.only_in_programs(&printable()));
        }
        if !self.batch.allows(self.config, name) {
            let printable = printable();
            return Err(not_allowed(&printable, &self.allowed_names(), self.batch.allowed.refusal_message(&printable)));
        }
        let Some(found) = found else {
            return Err(unknown_tool(&printable(), &self.allowed_names(), self.config.catalogue.is_some()));
        };
        if !self.is_visible(&found.tool) {
            return Err(not_shown(&printable()));
        }
        self.journal.set_tool(name, found.tool.digest());
        let given = changed.as_ref().map_or(RawArguments::Text(&self.call.arguments), RawArguments::Value);
        let call = validate_arguments(&found, given, self.config.repairs.as_deref())?;
        telemetry::emit_repairs(&call);
        self.repairs = call.repairs().to_vec();
        let actor = self.batch.scope.actor.as_deref();
        check_authorization(&found, actor, &call)?;
        let context = self.context();
        let call = if self.has_guardrails() {
            Box::pin(self.apply_guardrails(&found, call, &context)).await?
        } else {
            self.check_refusal().map(|()| call)?
        };
        if self.config.flows.is_some() {
            Box::pin(self.check_flow(&found, &call, &context)).await?;
        }
        Ok(AuthorizedCall { found, call, context, policy })
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

    /// Returns whether there are rules or a judge.
    fn has_guardrails(&self) -> bool {
        !self.config.rules.is_empty() || self.config.judge.is_some()
    }

    /// Runs the rules and the judge, and asks the approver where they require it. Returns the call as they leave it.
    async fn apply_guardrails(
        &mut self,
        found: &RegisteredTool,
        call: ValidatedCall,
        context: &CallContext,
    ) -> Result<ValidatedCall, Abort> {
        let config = self.config;
        let mut call = call;
        let mut is_changed = false;
        let mut asked = Vec::new();
        for policy in config.rules.iter().chain(&config.judge).filter(|policy| policy.applies_to(&found.tool)) {
            let Ruling { decision, usage } = evaluate(policy.as_ref(), &call, context).await;
            self.batch.add_usage(usage);
            let arguments = decided_arguments(&decision, &call);
            if let Some(question) = self.record_verdict(policy.name(), &decision, &arguments, usage).await? {
                asked.push((policy.name(), question));
            }
            if let Decision::Rewrite { to, note } = decision {
                note.into_iter().for_each(|note| self.add_note(note));
                call = found.tool.validate(to).map_err(|error| invalid_change(&error.to_string()))?;
                is_changed = true;
            }
        }
        if asked.is_empty() {
            self.check_refusal()?;
        }
        for (from, question) in asked {
            let proposed = ProposedCall::new(&call, context);
            self.ask_approver(&found.tool, CallQuestion { from: from.to_owned(), question, proposed }).await?;
        }
        if is_changed {
            found.accepts(&call).map_err(|problem| invalid_change(&problem))?;
            check_authorization(found, self.batch.scope.actor.as_deref(), &call)?;
        }
        Ok(call)
    }

    /// Adds a note unless it is there: a call that a hook changed goes through the rules twice.
    pub(super) fn add_note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Records a decision. A denial ends the call; a question is returned, to be asked once all policies have agreed.
    pub(super) async fn record_verdict<T>(
        &mut self,
        by: &str,
        decision: &Decision<T>,
        arguments: &Value,
        usage: Usage,
    ) -> Result<Option<String>, Abort> {
        let reason = match decision {
            Decision::Allow => None,
            Decision::Rewrite { note, .. } => note.as_deref(),
            Decision::Deny { error } => Some(error.message.as_str()),
            Decision::Ask { question } => Some(question.as_str()),
        };
        let body = || {
            let mut body = Map::from_iter([("by".to_owned(), Value::from(by))]);
            body.extend(reason.map(|reason| ("reason".to_owned(), Value::from(reason))));
            let tokens = (usage != Usage::default()).then(|| json!({"input": usage.input, "output": usage.output}));
            body.extend(tokens.map(|tokens| ("usage".to_owned(), tokens)));
            let arguments = catch_panic_sync(|| self.persist.arguments(arguments)).unwrap_or_default();
            body.extend(arguments.map(|arguments| ("arguments".to_owned(), arguments)));
            Value::Object(body)
        };
        self.journal.record(RecordKind::Verdict, Some(decision.as_str()), body).await?;
        match decision {
            Decision::Allow | Decision::Rewrite { .. } => Ok(None),
            Decision::Deny { error } => {
                let message = format!("denied by {by}: {}", error.message);
                Err(Abort::refusal(Status::RejectedDenied, CallError { message: message.into(), ..error.clone() }))
            }
            Decision::Ask { question } => Ok(Some(question.clone())),
        }
    }
}

/// Evaluates a policy before a call. One that fails or panics denies.
async fn evaluate(policy: &dyn Policy, call: &ValidatedCall, context: &CallContext) -> Ruling {
    let name = policy.name();
    // `before` itself may panic before it returns a future.
    match catch_panic(async { policy.before(call, context).await }).await {
        Ok(Ok(ruling)) => ruling,
        Ok(Err(error)) => Decision::deny(format!("the rule '{name}' failed: {}", error.message)).into(),
        Err(panic) => Decision::deny(format!("the rule '{name}' could not be evaluated: {panic}")).into(),
    }
}

/// Returns the arguments that a decision leaves.
fn decided_arguments(decision: &Decision<Arguments>, call: &ValidatedCall) -> Value {
    match decision {
        Decision::Rewrite { to: Arguments::Value(value), .. } => value.clone(),
        Decision::Rewrite { to: Arguments::Text(text), .. } => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()))
        }
        _ => call.arguments().clone(),
    }
}

/// Arguments that are to be checked.
#[derive(Clone, Copy)]
enum RawArguments<'a> {
    Text(&'a str),
    Value(&'a Value),
}

impl<'a> RawArguments<'a> {
    fn to_arguments(self) -> Arguments {
        match self {
            Self::Text(text) => Arguments::Text(text.to_owned()),
            Self::Value(value) => Arguments::Value(value.clone()),
        }
    }

    /// Returns the value; `None` if the text is not JSON.
    fn to_value(self) -> Option<Cow<'a, Value>> {
        match self {
            Self::Text(text) => serde_json::from_str(text).ok().map(Cow::Owned),
            Self::Value(value) => Some(Cow::Borrowed(value)),
        }
    }
}

/// Checks arguments against the schema and the tool's own type.
fn validate_arguments(
    found: &RegisteredTool,
    given: RawArguments<'_>,
    repairs: Option<&RepairPolicy>,
) -> Result<ValidatedCall, Abort> {
    let schema = found.tool.input_schema();
    let call = found.tool.validate_with(given.to_arguments(), repairs).map_err(|error| match error {
        InvalidCall::Withheld(refusal) => Abort::refusal(Status::RejectedDenied, refusal),
        error => {
            let mismatch = schema_mismatch(schema, given.to_value().as_deref(), &error.to_string());
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

/// Checks that the actor may make the call.
fn check_authorization(found: &RegisteredTool, actor: Option<&str>, call: &ValidatedCall) -> Result<(), Abort> {
    match catch_panic_sync(|| found.authorize(actor, call)) {
        Ok(true) => Ok(()),
        // A check that panics has not allowed the call.
        Ok(false) | Err(_) => Err(unauthorized(found.tool.full_name())),
    }
}

fn invalid_change(problem: &str) -> Abort {
    Abort::denial(format!("a guardrail changed the arguments to invalid ones: {problem}"))
}
