//! The checks that a call passes before it may run: resolve, allowlist, schema, authorize, guardrails.

use std::borrow::Cow;
use std::sync::Arc;

use fumehood_core::chat::Usage;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::record::RecordKind;
use fumehood_core::result::CallError;
use serde_json::{Map, Value, json};

use super::abort::{Abort, legible, mismatch, not_allowed, unauthorized, unknown};
use super::call_state::Dispatch;
use crate::approver::{Answer, Question};
use crate::catch_panic::{catch_panic, catch_panic_sync};
use crate::execution::Status;
use crate::guardrail::{CallQuestion, Judgement, Proposed, Ruling, Verdict, VerdictSource};
use crate::registry::{Family, Invocation, Policy, Stop, Tool};
use crate::retry::{Fault, Remedy, escalated};

/// Arguments before they were checked.
pub(super) enum RawArguments {
    /// As a model wrote them.
    Text(String),
    /// As a hook or a remedy made them.
    Value(Value),
}

impl RawArguments {
    fn raw(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Value(value) => Cow::Owned(value.to_string()),
        }
    }
}

/// A call that may run.
pub(super) struct AuthorizedCall {
    pub(super) family: Family,
    pub(super) tool: Arc<dyn Tool>,
    pub(super) policy: Policy,
    pub(super) invocation: Arc<Invocation>,
}

impl Dispatch<'_> {
    /// Takes a call through all the checks.
    pub(super) async fn clear(&mut self, name: &str, given: RawArguments) -> Result<AuthorizedCall, Abort> {
        let legible = legible(name);
        let found = self.parts.registries.find(name);
        // Known before the first refusal: that is recorded too.
        let policy = found.as_ref().map(|(_, tool)| self.parts.policy(tool.as_ref()));
        let policy = policy.unwrap_or_else(|| self.parts.agent_policy.clone());
        self.persist = policy.persist.clone().unwrap_or_default();
        // Asked before anything depends on whether there is such a tool: what is out of reach looks as if it were not there.
        if !self.batch.allowed.allows(name) {
            return Err(not_allowed(&legible, &self.reachable(), self.batch.allowed.refusal(&legible)));
        }
        let Some((family, tool)) = found else {
            return Err(unknown(&legible, &self.reachable()));
        };
        self.journal.about(name, tool.contract().spec().digest);
        let arguments = gated(tool.as_ref(), &policy, given)?;
        let mut invocation = self.invocation(tool.as_ref(), arguments);
        authorized(tool.as_ref(), &invocation)?;
        if self.guarded(tool.as_ref(), &mut invocation).await? {
            recheck(tool.as_ref(), &invocation)?;
        }
        Ok(AuthorizedCall { family, tool, policy, invocation: Arc::new(invocation) })
    }

    /// The names of the tools that may be called.
    fn reachable(&self) -> Vec<String> {
        let tools = self.parts.registries.tools();
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
            state: if tool.wants_state() { self.batch.state() } else { None },
            session: scope.session.clone(),
            execution: scope.execution.clone(),
            step: scope.step,
            partials: Default::default(),
        }
    }

    /// Whether the arguments were changed.
    async fn guarded(&mut self, tool: &dyn Tool, invocation: &mut Invocation) -> Result<bool, Abort> {
        let annotations = tool.contract().spec().annotations;
        let scope = self.batch.scope;
        let mut proposed = Proposed {
            tool: invocation.tool.clone(),
            annotations,
            arguments: std::mem::take(&mut invocation.arguments),
            actor: scope.actor.clone(),
            skill: scope.skill.clone(),
            session: scope.session.clone(),
        };
        let passage = self.parts.rules.evaluate(&mut proposed);
        let mut changed = !passage.notes.is_empty();
        for note in passage.notes {
            self.noted(note);
        }
        let mut questions = Vec::new();
        for ruling in passage.rulings {
            questions.extend(self.record_verdict(ruling, &proposed, Usage::default()).await?);
        }
        if let Some((judge, policy)) = &self.parts.judge
            && policy.applies(&proposed)
        {
            let failed = |said: String| Verdict::Deny { reason: format!("the judge failed: {said}") }.into();
            let Judgement { verdict, usage } = catch_panic(judge.judge(&proposed)).await.unwrap_or_else(failed);
            self.batch.spend(usage);
            if let Verdict::Modify { arguments, note } = &verdict {
                proposed.arguments = arguments.clone();
                self.noted(note.clone());
                changed = true;
            }
            questions
                .extend(self.record_verdict(Ruling { source: VerdictSource::Judge, verdict }, &proposed, usage).await?);
        }
        for question in questions {
            self.asked(CallQuestion { proposed: proposed.clone(), ..question }).await?;
        }
        invocation.arguments = proposed.arguments;
        Ok(changed)
    }

    /// A call that goes through the rules a second time is told once what they change.
    fn noted(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Records a verdict. A denial ends the call; a question is handed on, to be put once everybody else has agreed.
    async fn record_verdict(
        &mut self,
        ruling: Ruling,
        proposed: &Proposed,
        usage: Usage,
    ) -> Result<Option<CallQuestion>, Abort> {
        let Ruling { source, verdict } = ruling;
        let said = match &verdict {
            Verdict::Allow => None,
            Verdict::Modify { note: said, .. } | Verdict::Deny { reason: said } | Verdict::Ask { question: said } => {
                Some(said.as_str())
            }
        };
        let body = || {
            let mut body = Map::from_iter([("by".to_owned(), Value::from(source.as_str()))]);
            body.extend(said.map(|said| ("reason".to_owned(), Value::from(said))));
            let used = (usage != Usage::default()).then(|| json!({"input": usage.input, "output": usage.output}));
            body.extend(used.map(|used| ("usage".to_owned(), used)));
            let kept = catch_panic_sync(|| self.persist.arguments(&proposed.arguments)).unwrap_or_default();
            body.extend(kept.map(|kept| ("arguments".to_owned(), kept)));
            Value::Object(body)
        };
        self.journal.put(RecordKind::Verdict, Some(verdict.as_str()), body).await?;
        match verdict {
            Verdict::Allow | Verdict::Modify { .. } => Ok(None),
            Verdict::Deny { reason } => Err(Abort::denied(format!("denied by {}: {reason}", source.as_str()))),
            Verdict::Ask { question } => {
                Ok(Some(CallQuestion { from: source.as_str().to_owned(), question, proposed: proposed.clone() }))
            }
        }
    }

    async fn asked(&mut self, question: CallQuestion) -> Result<(), Abort> {
        let Some(approver) = &self.parts.approver else {
            let message = format!("somebody has to approve this call: {}", question.question);
            let error = CallError::new(ErrorKind::NeedsApproval, message)
                .with_hint("nobody can be asked here; go on without this call");
            return Err(Abort::refused(Status::RejectedDenied, error));
        };
        let answer = catch_panic(approver.ask(Question::Call(&question))).await;
        let verdict = match answer {
            Ok(Answer::Allow) => Verdict::Allow,
            Ok(Answer::Deny { reason }) if reason.is_empty() => Verdict::Deny { reason: "no".to_owned() },
            Ok(Answer::Deny { reason }) => Verdict::Deny { reason },
            Err(said) => Verdict::Deny { reason: format!("nobody could be asked: {said}") },
        };
        self.record_verdict(Ruling { source: VerdictSource::Approver, verdict }, &question.proposed, Usage::default())
            .await
            .map(drop)
    }
}

/// The arguments, once they fit the schema and the tool's own type; or what the tool's remedy makes of it.
fn gated(tool: &dyn Tool, policy: &Policy, given: RawArguments) -> Result<Value, Abort> {
    let (fault, error) = match admitted(tool, &given) {
        Ok(arguments) => return Ok(arguments),
        Err(wrong) => wrong,
    };
    let refused = |error| Err(Abort::refused(Status::RejectedSchema, error));
    match policy.remedy(fault) {
        // The same arguments will not fit the next time either.
        Remedy::Tell | Remedy::Retry(_) => refused(error),
        Remedy::Fix(fix) => {
            let fixed = catch_panic_sync(|| fix(&given.raw(), &error)).ok().flatten().map(RawArguments::Value);
            match fixed.map(|fixed| admitted(tool, &fixed)) {
                Some(Ok(arguments)) => Ok(arguments),
                Some(Err(_)) | None => refused(error),
            }
        }
        Remedy::Escalate { severity, advice } => refused(escalated(error, *severity, advice)),
        Remedy::Stop => Err(Abort::Stop(Stop::new(error.message))),
    }
}

fn admitted(tool: &dyn Tool, given: &RawArguments) -> Result<Value, (Fault, CallError)> {
    let contract = tool.contract();
    let schema = &contract.spec().parameters;
    let invalid = |given: Option<&Value>, wrong: String| (Fault::InvalidArguments, mismatch(schema, given, &wrong));
    let arguments = match given {
        RawArguments::Text(text) => contract
            .gate()
            .parse(text)
            .map_err(|wrong| invalid(serde_json::from_str(text).ok().as_ref(), wrong.to_string()))?,
        RawArguments::Value(value) => match contract.gate().check(value) {
            Ok(()) => value.clone(),
            Err(wrong) => return Err(invalid(Some(value), wrong.to_string())),
        },
    };
    match catch_panic_sync(|| tool.accepts(&arguments)).unwrap_or_else(Err) {
        Ok(()) => Ok(arguments),
        Err(wrong) => Err((Fault::Deserialization, mismatch(schema, Some(&arguments), &wrong))),
    }
}

fn authorized(tool: &dyn Tool, invocation: &Invocation) -> Result<(), Abort> {
    match catch_panic_sync(|| tool.authorize(invocation.actor.as_deref(), invocation)) {
        Ok(true) => Ok(()),
        // A check that panics has not said yes.
        Ok(false) | Err(_) => Err(unauthorized(tool.contract().name())),
    }
}

/// What rules made of the arguments goes through the checks that the arguments had gone through.
fn recheck(tool: &dyn Tool, invocation: &Invocation) -> Result<(), Abort> {
    let fits = tool.contract().gate().check(&invocation.arguments).map_err(|wrong| wrong.to_string());
    if let Err(wrong) = fits.and_then(|()| tool.accepts(&invocation.arguments)) {
        return Err(Abort::denied(format!(
            "a guardrail changed the arguments to what the tool does not take: {wrong}"
        )));
    }
    authorized(tool, invocation)
}
