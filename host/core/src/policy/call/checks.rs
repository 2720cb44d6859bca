//! The checks between the gate and the run of a call: one sequence for every face.

use std::convert::Infallible;

use serde_json::Value;

use super::approver::{Answer, CallQuestion, ProposedCall};
use super::decision::{Decision, MODIFY};
use super::policies::Policies;
use crate::boxed::BoxFuture;
use crate::call::CallContext;
use crate::call::result::{CallError, CallResult};
use crate::chat::Usage;
use crate::panic::catch_panic;
use crate::policy::flow::FlowPolicy;
use crate::telemetry;
use crate::tool::{Tool, ValidatedCall};

/// The name of the policy on flows in records and messages.
pub const FLOWS: &str = "flows";
/// The name of a person in records and messages.
pub const PERSON: &str = "human";

/// All checks of a call that passed the gate. Cheap to clone.
///
/// ```text
/// authorization ─ rules ─ their questions ─ flows ─ their question ─ hooks ─ their questions
///        └──────────── once more, with the arguments that a hook changed ───────┘
/// ```
///
/// - Every list authorizes a call before any of its policies decides otherwise.
/// - Changed arguments go through the gate of the tool, and are authorized again. Later policies see them.
/// - A policy that fails, panics or decides something invalid has refused the call or withheld the result.
/// - A person is asked once all policies of a list have agreed. A denial is final.
#[derive(Debug, Clone, Default)]
pub struct CallChecks {
    /// The rules, in the order in which they decide. A model that judges calls comes last.
    pub rules: Policies,
    /// The policy for flows of data between tools; `None` if flows are not checked.
    pub flows: Option<FlowPolicy>,
    /// The hooks of an operator. They are next to the tool: they see the arguments that rules left.
    pub hooks: Policies,
}

/// A check of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The tool's own check of the actor.
    Authorization,
    /// A rule or a judge.
    Rule,
    /// The policy on flows.
    Flow,
    /// A hook of an operator.
    Hook,
    /// The answer of a person.
    Person,
}

impl Check {
    /// Returns the name of a policy as messages and questions have it.
    pub(super) fn label(self, policy: &str) -> String {
        match self {
            Self::Hook => format!("the hook `{policy}`"),
            _ => policy.to_owned(),
        }
    }
}

/// A decision on a call, before it takes effect.
#[derive(Debug, Clone)]
pub struct Verdict<'a> {
    /// The check.
    pub check: Check,
    /// The name of the policy, `flows` or `human`.
    pub by: &'a str,
    /// The decision: `allow`, `modify`, `deny` or `ask`.
    pub decision: &'static str,
    /// The reason of a denial, the text of a question, or the description of a change.
    pub reason: Option<&'a str>,
    /// The arguments that the decision leaves.
    pub arguments: &'a Value,
    /// Tokens that a model used.
    pub usage: Usage,
}

impl Verdict<'_> {
    /// Returns the description of a change, for the model.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        match self.check {
            _ if self.decision != MODIFY => None,
            // Hooks are of the operator, not of the agent, which learns only that they changed something.
            Check::Hook => Some(format!("{} changed the arguments", self.check.label(self.by))),
            _ => self.reason.map(str::to_owned),
        }
    }
}

/// A question of a policy that a person has to agree to before the call runs.
pub(super) struct PolicyQuestion {
    /// The source of the question.
    pub(super) from: String,
    pub(super) text: String,
}

/// The end of a call that does not run.
#[derive(Debug)]
pub enum CheckError {
    /// The call is refused.
    Refused {
        /// The check that refused it.
        by: Check,
        /// The error, for the caller.
        error: CallError,
    },
    /// Nobody can be asked this question.
    Unanswered(Box<CallQuestion>),
    /// A person answers this question later.
    Deferred(Box<CallQuestion>),
}

impl CheckError {
    pub(super) fn refused(by: Check, error: CallError) -> Self {
        Self::Refused { by, error }
    }

    /// Returns the error of the call for a caller that does not wait. It names the source of a question, because there is no
    /// record of the decision.
    #[must_use]
    pub fn into_error(self) -> CallError {
        match self {
            Self::Refused { error, .. } => error,
            Self::Unanswered(question) | Self::Deferred(question) => {
                let error = question.unanswered();
                let message = format!("{} (asked by {})", error.message, question.from);
                CallError { message: message.into(), ..error }
            }
        }
    }
}

/// The part of a check that differs between the faces: the history of calls, the records of decisions, the person to ask.
pub trait CheckDelegate: Send {
    /// Decides on the flow of data into a call, after the calls that were made before.
    fn decide_flow(&self, policy: &FlowPolicy, tool: &Tool) -> Decision<Infallible>;

    /// Checks that the actor may make the call. Runs again after a policy changed the arguments. Default: it may.
    ///
    /// # Errors
    /// If it may not.
    fn authorize(&self, call: &ValidatedCall) -> Result<(), CallError> {
        let _ = call;
        Ok(())
    }

    /// Checks arguments that a policy changed, beyond the gate. Default: they are accepted.
    ///
    /// # Errors
    /// The problem of the arguments.
    fn accepts(&self, call: &ValidatedCall) -> Result<(), String> {
        let _ = call;
        Ok(())
    }

    /// Decides on a call about which no rule asks. Default: it goes on.
    ///
    /// # Errors
    /// If a person refused it before.
    fn skip_questions(&self) -> Result<(), CallError> {
        Ok(())
    }

    /// Records a decision. Default: it is not recorded.
    ///
    /// # Errors
    /// If it cannot be recorded. The call is refused then.
    fn record<'a>(&'a mut self, verdict: Verdict<'a>) -> BoxFuture<'a, Result<(), CallError>> {
        let _ = verdict;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Asks a person. Returns `None` if nobody can be asked, which is the default: the call is refused.
    fn ask<'a>(&'a mut self, question: &'a CallQuestion) -> BoxFuture<'a, Option<Answer>> {
        let _ = question;
        Box::pin(std::future::ready(None))
    }
}

impl CallChecks {
    /// Returns whether there are no checks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.flows.is_none() && self.hooks.is_empty()
    }

    /// Takes a call through the checks, and returns it as they leave it.
    ///
    /// # Errors
    /// The reason for which the call does not run.
    pub async fn clear(
        &self,
        call: ValidatedCall,
        context: &CallContext,
        delegate: &mut dyn CheckDelegate,
    ) -> Result<ValidatedCall, CheckError> {
        let call = self.check_rules_and_flows(call, context, delegate).await?;
        if self.hooks.is_empty() {
            return Ok(call);
        }
        let hooked = self.hooks.before(Check::Hook, call.clone(), context, delegate).await?;
        let call = if hooked.call.arguments() == call.arguments() {
            hooked.call
        } else {
            self.check_rules_and_flows(hooked.call, context, delegate).await?
        };
        ask_all(hooked.questions, &call, context, delegate).await?;
        Ok(call)
    }

    async fn check_rules_and_flows(
        &self,
        call: ValidatedCall,
        context: &CallContext,
        delegate: &mut dyn CheckDelegate,
    ) -> Result<ValidatedCall, CheckError> {
        delegate.authorize(&call).map_err(|error| CheckError::refused(Check::Authorization, error))?;
        let ruled = self.rules.before(Check::Rule, call, context, delegate).await?;
        if ruled.questions.is_empty() {
            delegate.skip_questions().map_err(|error| CheckError::refused(Check::Person, error))?;
        }
        ask_all(ruled.questions, &ruled.call, context, delegate).await?;
        self.check_flow(&ruled.call, context, delegate).await?;
        Ok(ruled.call)
    }

    /// Refuses a call that would send private data to the public, or has a person asked about it.
    ///
    /// Its arguments were written before it started, so a source that starts later does not concern it.
    async fn check_flow(
        &self,
        call: &ValidatedCall,
        context: &CallContext,
        delegate: &mut dyn CheckDelegate,
    ) -> Result<(), CheckError> {
        let Some(policy) = &self.flows else { return Ok(()) };
        let decision = delegate.decide_flow(policy, call.tool());
        if decision == Decision::Allow {
            return Ok(());
        }
        let asked = enact(Check::Flow, FLOWS, &decision, call.arguments(), Usage::default(), delegate).await?;
        let asked = asked.map(|text| PolicyQuestion { from: FLOWS.to_owned(), text });
        ask_all(asked, call, context, delegate).await
    }

    /// Runs the policies after a call, those next to the tool first, and returns the result as they leave it.
    pub async fn after(&self, call: &ValidatedCall, context: &CallContext, result: CallResult) -> CallResult {
        let result = self.hooks.after(Check::Hook, call, context, result).await;
        self.rules.after(Check::Rule, call, context, result).await
    }

    /// Returns whether a policy decides on results of the tool.
    #[must_use]
    pub fn decide_on_results(&self, tool: &Tool) -> bool {
        self.hooks.decide_on_results(tool) || self.rules.decide_on_results(tool)
    }

    /// Removes from the context what no policy sees: parts of a result before policies have decided on it, metadata that the
    /// client sent beside the arguments, and what it answers while the call runs.
    pub fn hold_back(&self, tool: &Tool, context: &mut CallContext) {
        self.rules.hold_back(tool, context);
        self.hooks.hold_back(tool, context);
    }
}

/// Records a decision, and returns its question. A denial ends the call.
pub(super) async fn enact<T>(
    check: Check,
    by: &str,
    decision: &Decision<T>,
    arguments: &Value,
    usage: Usage,
    delegate: &mut dyn CheckDelegate,
) -> Result<Option<String>, CheckError> {
    let reason = match decision {
        Decision::Allow => None,
        Decision::Rewrite { note, .. } => note.as_deref(),
        Decision::Deny { error } => Some(error.message.as_str()),
        Decision::Ask { question } => Some(question.as_str()),
    };
    let verdict = Verdict { check, by, decision: decision.as_str(), reason, arguments, usage };
    delegate.record(verdict).await.map_err(|error| CheckError::refused(check, error))?;
    match decision {
        Decision::Allow | Decision::Rewrite { .. } => Ok(None),
        Decision::Deny { error } => {
            let message = format!("denied by {}: {}", check.label(by), error.message);
            Err(CheckError::refused(check, CallError { message: message.into(), ..error.clone() }))
        }
        Decision::Ask { question } => Ok(Some(question.clone())),
    }
}

/// Asks a person the questions of policies, about a call as all of them left it.
async fn ask_all(
    asked: impl IntoIterator<Item = PolicyQuestion, IntoIter: Send>,
    call: &ValidatedCall,
    context: &CallContext,
    delegate: &mut dyn CheckDelegate,
) -> Result<(), CheckError> {
    for PolicyQuestion { from, text } in asked {
        let question = CallQuestion { from, question: text, proposed: ProposedCall::new(call, context) };
        let asking = catch_panic(async { delegate.ask(&question).await }).await;
        let decision = match asking {
            Ok(None) => return Err(CheckError::Unanswered(Box::new(question))),
            Ok(Some(Answer::Defer)) => return Err(CheckError::Deferred(Box::new(question))),
            Ok(Some(Answer::Allow)) => Decision::Allow,
            Ok(Some(Answer::Deny { reason })) if reason.is_empty() => Decision::deny("no"),
            Ok(Some(Answer::Deny { reason })) => Decision::deny(reason),
            Err(panic) => Decision::deny(format!("no person could be asked: {panic}")),
        };
        let decision: Decision<Infallible> = decision;
        telemetry::emit_call_approval(call.tool().full_name(), &context.id, decision == Decision::Allow);
        enact(Check::Person, PERSON, &decision, call.arguments(), Usage::default(), delegate).await?;
    }
    Ok(())
}
