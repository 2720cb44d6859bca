//! The checks that a call passes before it may run: resolve, allowlist, schema, authorize, guardrails.

use std::borrow::Cow;
use std::sync::Arc;

use fumehood_core::chat::Usage;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::record::RecordKind;
use fumehood_core::result::CallError;
use serde_json::{Map, Value, json};

use super::abort::{Abort, not_allowed, printable_name, schema_mismatch, unauthorized, unknown_tool};
use super::dispatch::Dispatch;
use crate::approver::{Answer, Question};
use crate::catch_panic::{catch_panic, catch_panic_sync};
use crate::execution::Status;
use crate::guardrail::{CallQuestion, Judgement, ProposedCall, Ruling, Verdict, VerdictSource};
use crate::registry::{Invocation, Policy, ProviderKind, Stop, Tool};
use crate::retry::{Fault, Remedy, escalate};

/// Unchecked arguments.
pub(super) enum RawArguments {
    /// JSON text that a model wrote.
    Text(String),
    /// A value that a hook or a remedy made.
    Value(Value),
}

impl RawArguments {
    fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Value(value) => Cow::Owned(value.to_string()),
        }
    }
}

/// A call that passed every check and may run.
pub(super) struct AuthorizedCall {
    pub(super) provider: ProviderKind,
    pub(super) tool: Arc<dyn Tool>,
    pub(super) policy: Policy,
    pub(super) invocation: Arc<Invocation>,
}

impl Dispatch<'_> {
    /// Takes a call through all checks.
    pub(super) async fn check(&mut self, name: &str, given: RawArguments) -> Result<AuthorizedCall, Abort> {
        let printable = printable_name(name);
        let found = self.config.registry.find(name);
        // Set before the first refusal, because a refusal is recorded too.
        let policy = found.as_ref().map(|(_, tool)| self.config.policy(tool.as_ref()));
        let policy = policy.unwrap_or_else(|| self.config.agent_policy.clone());
        self.persist = policy.persist.clone().unwrap_or_default();
        // Checked before anything depends on whether the tool exists: a tool out of reach must look as if it did not
        // exist.
        if !self.batch.allowed.allows(name) {
            return Err(not_allowed(&printable, &self.allowed_names(), self.batch.allowed.refusal_message(&printable)));
        }
        let Some((provider, tool)) = found else {
            return Err(unknown_tool(&printable, &self.allowed_names()));
        };
        self.journal.set_tool(name, tool.contract().spec().digest);
        let arguments = validate_arguments(tool.as_ref(), &policy, given)?;
        let mut invocation = self.invocation(tool.as_ref(), arguments);
        check_authorization(tool.as_ref(), &invocation)?;
        if self.apply_guardrails(tool.as_ref(), &mut invocation).await? {
            recheck(tool.as_ref(), &invocation)?;
        }
        Ok(AuthorizedCall { provider, tool, policy, invocation: Arc::new(invocation) })
    }

    /// Returns the names of the tools that may be called.
    fn allowed_names(&self) -> Vec<String> {
        let tools = self.config.registry.tools();
        let names = tools.iter().map(|tool| tool.contract().name());
        names.filter(|name| self.batch.allowed.allows(name)).map(str::to_owned).collect()
    }

    fn invocation(&self, tool: &dyn Tool, arguments: Value) -> Invocation {
        let scope = self.batch.scope;
        Invocation {
            id: self.call.id.clone(),
            tool: tool.contract().name().to_owned(),
            arguments,
            actor: scope.actor.clone(),
            state: if tool.needs_state() { self.batch.state() } else { None },
            session: scope.session.clone(),
            execution: scope.execution.clone(),
            step: scope.step,
            partials: Default::default(),
        }
    }

    /// Runs rules and judge, and asks the approver where they require it. Returns whether the arguments were changed.
    async fn apply_guardrails(&mut self, tool: &dyn Tool, invocation: &mut Invocation) -> Result<bool, Abort> {
        let annotations = tool.contract().spec().annotations;
        let scope = self.batch.scope;
        let mut proposed = ProposedCall {
            tool: invocation.tool.clone(),
            annotations,
            arguments: std::mem::take(&mut invocation.arguments),
            actor: scope.actor.clone(),
            skill: scope.skill.clone(),
            session: scope.session.clone(),
        };
        let outcome = self.config.rules.evaluate(&mut proposed);
        let mut changed = !outcome.notes.is_empty();
        for note in outcome.notes {
            self.add_note(note);
        }
        let mut questions = Vec::new();
        for ruling in outcome.rulings {
            questions.extend(self.record_verdict(ruling, &proposed, Usage::default()).await?);
        }
        if let Some((judge, policy)) = &self.config.judge
            && policy.applies(&proposed)
        {
            let failed = |panic: String| Verdict::Deny { reason: format!("the judge failed: {panic}") }.into();
            let Judgement { verdict, usage } = catch_panic(judge.judge(&proposed)).await.unwrap_or_else(failed);
            self.batch.add_usage(usage);
            if let Verdict::Modify { arguments, note } = &verdict {
                proposed.arguments = arguments.clone();
                self.add_note(note.clone());
                changed = true;
            }
            questions
                .extend(self.record_verdict(Ruling { source: VerdictSource::Judge, verdict }, &proposed, usage).await?);
        }
        for question in questions {
            self.ask_approver(CallQuestion { proposed: proposed.clone(), ..question }).await?;
        }
        invocation.arguments = proposed.arguments;
        Ok(changed)
    }

    /// Adds a note unless it is there: a call that a hook changed goes through the rules twice.
    fn add_note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Records a verdict. A denial ends the call; a question is returned, to be asked once all rules and the judge have
    /// agreed.
    async fn record_verdict(
        &mut self,
        ruling: Ruling,
        proposed: &ProposedCall,
        usage: Usage,
    ) -> Result<Option<CallQuestion>, Abort> {
        let Ruling { source, verdict } = ruling;
        let reason = match &verdict {
            Verdict::Allow => None,
            Verdict::Modify { note: text, .. } | Verdict::Deny { reason: text } | Verdict::Ask { question: text } => {
                Some(text.as_str())
            }
        };
        let body = || {
            let mut body = Map::from_iter([("by".to_owned(), Value::from(source.as_str()))]);
            body.extend(reason.map(|reason| ("reason".to_owned(), Value::from(reason))));
            let tokens = (usage != Usage::default()).then(|| json!({"input": usage.input, "output": usage.output}));
            body.extend(tokens.map(|tokens| ("usage".to_owned(), tokens)));
            let arguments = catch_panic_sync(|| self.persist.arguments(&proposed.arguments)).unwrap_or_default();
            body.extend(arguments.map(|arguments| ("arguments".to_owned(), arguments)));
            Value::Object(body)
        };
        self.journal.record(RecordKind::Verdict, Some(verdict.as_str()), body).await?;
        match verdict {
            Verdict::Allow | Verdict::Modify { .. } => Ok(None),
            Verdict::Deny { reason } => Err(Abort::denial(format!("denied by {}: {reason}", source.as_str()))),
            Verdict::Ask { question } => {
                Ok(Some(CallQuestion { from: source.as_str().to_owned(), question, proposed: proposed.clone() }))
            }
        }
    }

    /// Asks the approver about a call. Without an approver, the call is refused.
    async fn ask_approver(&mut self, question: CallQuestion) -> Result<(), Abort> {
        let Some(approver) = &self.config.approver else {
            let message = format!("somebody has to approve this call: {}", question.question);
            let error = CallError::new(ErrorKind::NeedsApproval, message)
                .with_hint("nobody can be asked here; go on without this call");
            return Err(Abort::refusal(Status::RejectedDenied, error));
        };
        let answer = catch_panic(approver.ask(Question::Call(&question))).await;
        let verdict = match answer {
            Ok(Answer::Allow) => Verdict::Allow,
            Ok(Answer::Deny { reason }) if reason.is_empty() => Verdict::Deny { reason: "no".to_owned() },
            Ok(Answer::Deny { reason }) => Verdict::Deny { reason },
            Err(panic) => Verdict::Deny { reason: format!("nobody could be asked: {panic}") },
        };
        self.record_verdict(Ruling { source: VerdictSource::Approver, verdict }, &question.proposed, Usage::default())
            .await
            .map(drop)
    }
}

/// Checks arguments against the schema and the tool's own type. Applies the tool's remedy if they do not fit.
fn validate_arguments(tool: &dyn Tool, policy: &Policy, given: RawArguments) -> Result<Value, Abort> {
    let (fault, error) = match parse_arguments(tool, &given) {
        Ok(arguments) => return Ok(arguments),
        Err(problem) => problem,
    };
    let refused = |error| Err(Abort::refusal(Status::RejectedSchema, error));
    match policy.remedy(fault) {
        // The same arguments would fail again.
        Remedy::Tell | Remedy::Retry(_) => refused(error),
        Remedy::Fix(fix) => {
            let fixed = catch_panic_sync(|| fix(&given.to_text(), &error)).ok().flatten().map(RawArguments::Value);
            match fixed.map(|fixed| parse_arguments(tool, &fixed)) {
                Some(Ok(arguments)) => Ok(arguments),
                Some(Err(_)) | None => refused(error),
            }
        }
        Remedy::Escalate { severity, advice } => refused(escalate(error, *severity, advice)),
        Remedy::Stop => Err(Abort::Stop(Stop::new(error.message))),
    }
}

/// Parses arguments and checks them against the schema and the tool's own type.
fn parse_arguments(tool: &dyn Tool, given: &RawArguments) -> Result<Value, (Fault, CallError)> {
    let contract = tool.contract();
    let schema = &contract.spec().parameters;
    let invalid =
        |given: Option<&Value>, problem: String| (Fault::InvalidArguments, schema_mismatch(schema, given, &problem));
    let arguments = match given {
        RawArguments::Text(text) => contract
            .gate()
            .parse(text)
            .map_err(|error| invalid(serde_json::from_str(text).ok().as_ref(), error.to_string()))?,
        RawArguments::Value(value) => match contract.gate().check(value) {
            Ok(()) => value.clone(),
            Err(error) => return Err(invalid(Some(value), error.to_string())),
        },
    };
    match catch_panic_sync(|| tool.accepts(&arguments)).unwrap_or_else(Err) {
        Ok(()) => Ok(arguments),
        Err(problem) => Err((Fault::Deserialization, schema_mismatch(schema, Some(&arguments), &problem))),
    }
}

/// Checks that the actor may make the call.
fn check_authorization(tool: &dyn Tool, invocation: &Invocation) -> Result<(), Abort> {
    match catch_panic_sync(|| tool.authorize(invocation.actor.as_deref(), invocation)) {
        Ok(true) => Ok(()),
        // A check that panics has not allowed the call.
        Ok(false) | Err(_) => Err(unauthorized(tool.contract().name())),
    }
}

/// Repeats the checks of schema, type and authorization for arguments that rules changed.
fn recheck(tool: &dyn Tool, invocation: &Invocation) -> Result<(), Abort> {
    let fits = tool.contract().gate().check(&invocation.arguments).map_err(|error| error.to_string());
    if let Err(problem) = fits.and_then(|()| tool.accepts(&invocation.arguments)) {
        return Err(Abort::denial(format!(
            "a guardrail changed the arguments to what the tool does not take: {problem}"
        )));
    }
    check_authorization(tool, invocation)
}
