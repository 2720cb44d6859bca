//! An agent as a tool of another agent.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::record::Recorder;
use fumehood_core::tool::definition::Annotations;
use fumehood_core::tool::{Stop, Tool, ValidatedCall};
use serde_json::{Value, json};

use super::outcome::Outcome;
use super::run::Agent;
use crate::allowance::Amounts;
use crate::executor::Scope;
use crate::registry::{BuiltInTool, CallSession, ToolError, built_in_tool};
use crate::session::budget::{Budget, BudgetUsage};
use crate::session::transcript::Ending;

type Factory = dyn Fn(&ParentSession) -> Result<Agent, String> + Send + Sync;

/// A tool that gives a task to an agent, and returns its answer.
///
/// Each call is a session of its own, with an empty conversation. The agent is made by the host's own code, with the
/// tools, rules and approver that it chooses; [`LoopBuilder::child_of`](super::LoopBuilder::child_of) makes it part of
/// the session that calls it:
///
/// - Tokens, calls and fuel count towards the budget of that session. What the agent may use is reserved when it
///   begins, so that several agents at once cannot use more than there is.
/// - Its records name that session, and go to the same log.
/// - It has the same actor, and is stopped with the call.
///
/// An agent that ends without an answer is a failed call.
pub struct AgentTool {
    tool: Arc<Tool>,
    make: Box<Factory>,
}

impl fmt::Debug for AgentTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentTool").field("tool", &self.tool.full_name()).finish_non_exhaustive()
    }
}

/// The session that calls an [`AgentTool`].
pub struct ParentSession {
    session: CallSession,
    actor: Option<Arc<str>>,
    reserved: Mutex<Option<Amounts>>,
}

impl fmt::Debug for ParentSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParentSession").field("session", &self.session.id).finish_non_exhaustive()
    }
}

impl ParentSession {
    /// Returns the id of the session.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.session.id
    }

    /// Returns the actor on whose behalf it runs.
    #[must_use]
    pub fn actor(&self) -> Option<&Arc<str>> {
        self.actor.as_ref()
    }

    /// Returns the recorder of the session.
    #[must_use]
    pub fn recorder(&self) -> Arc<dyn Recorder> {
        Arc::clone(&self.session.recorder)
    }

    /// Sets the parent of a scope, and its actor.
    pub fn adopt(&self, scope: &mut Scope) {
        scope.parent_session = Some(self.session.id.clone());
        scope.cause.clone_from(&self.session.cause);
        scope.actor.clone_from(&self.actor);
    }

    /// Reserves as much of the session's budget as `wanted` has, or as is left. Returns that. Call it once.
    #[must_use]
    pub fn reserve(&self, wanted: &Budget) -> Budget {
        let reserved = self.session.allowance.as_ref().map(|allowance| allowance.reserve(amounts_of(wanted)));
        *self.reserved.lock().unwrap_or_else(PoisonError::into_inner) = reserved;
        reserved.map_or_else(|| wanted.clone(), |reserved| limit(wanted, reserved))
    }

    /// Gives back what an agent did not use, and counts what it did.
    fn settle(&self, agent: &Agent) {
        let spent = agent.session().budget_usage();
        let reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(allowance), Some(reserved)) = (&self.session.allowance, reserved) {
            allowance.release(reserved, to_amounts(spent));
        }
        self.session.account.add(spent.usage, u32::try_from(spent.calls_in_all).unwrap_or(u32::MAX));
    }
}

/// Returns the amounts that a budget allows.
fn amounts_of(budget: &Budget) -> Amounts {
    Amounts {
        calls: budget.calls_in_all.unwrap_or(u64::MAX).min(budget.calls.into()),
        fuel: budget.fuel.unwrap_or(u64::MAX),
        tokens_in: budget.tokens_in.unwrap_or(u64::MAX),
        tokens_out: budget.tokens_out.unwrap_or(u64::MAX),
    }
}

/// Returns a budget with these amounts. An agent has one message, whose last request is for prose once it has no calls
/// left.
fn limit(budget: &Budget, reserved: Amounts) -> Budget {
    Budget {
        calls: u32::try_from(reserved.calls).unwrap_or(u32::MAX).min(budget.calls),
        fuel: to_limit(reserved.fuel),
        tokens_in: to_limit(reserved.tokens_in),
        tokens_out: to_limit(reserved.tokens_out),
        ..budget.clone()
    }
}

/// Returns an amount as a limit. [`u64::MAX`] is no limit.
fn to_limit(amount: u64) -> Option<u64> {
    (amount != u64::MAX).then_some(amount)
}

/// Returns the amounts that a session has used.
fn to_amounts(spent: &BudgetUsage) -> Amounts {
    let tokens_in = spent.usage.input;
    let tokens_out = spent.usage.output;
    Amounts { calls: spent.calls_in_all, fuel: spent.fuel, tokens_in, tokens_out }
}

/// Settles the reservation of an agent also if its call is dropped.
struct SettleGuard<'a> {
    parent: &'a ParentSession,
    agent: Agent,
}

impl Drop for SettleGuard<'_> {
    fn drop(&mut self) {
        self.parent.settle(&self.agent);
    }
}

impl AgentTool {
    /// Creates a tool with one argument, `task`, for which `make` makes an agent.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn new<M>(name: &str, description: &str, make: M) -> Result<Self, ToolError>
    where
        M: Fn(&ParentSession) -> Result<Agent, String> + Send + Sync + 'static,
    {
        let schema = json!({
            "type": "object",
            "properties": {
                "task": { "type": "string", "description": "The task, with all the information that it needs" }
            },
            "required": ["task"],
        });
        let tool = built_in_tool(name, description, schema, Annotations::default())?;
        Ok(Self { tool: Arc::new(tool), make: Box::new(make) })
    }

    async fn run(&self, task: String, parent: &ParentSession) -> (Result<Vec<Content>, CallError>, Metadata) {
        let agent = match (self.make)(parent) {
            Ok(agent) => agent,
            Err(message) => {
                let message = format!("cannot build the agent: {message}");
                return (Err(CallError::new(ErrorKind::Host, message)), Metadata::default());
            }
        };
        let mut settled = SettleGuard { parent, agent };
        let outcome = match settled.agent.run(task).await {
            Ok(outcome) => answer(&outcome),
            Err(error) => Err(CallError::new(ErrorKind::Host, error.to_string())),
        };
        let metadata = Metadata::default().fuel_used(settled.agent.session().budget_usage().fuel);
        let metadata = metadata.with_outcome(&outcome);
        (outcome, metadata)
    }
}

/// Converts the outcome of an agent to the result of the call.
fn answer(outcome: &Outcome) -> Result<Vec<Content>, CallError> {
    let Ending::Answered { text } = &outcome.ending else {
        let kind = match outcome.ending {
            Ending::Cancelled => ErrorKind::Cancelled,
            Ending::BudgetExhausted { .. } => ErrorKind::BudgetExhausted,
            _ => ErrorKind::ToolFailed,
        };
        let ending = outcome.ending.as_str().replace('_', " ");
        let last = Some(outcome.text()).filter(|text| !text.is_empty());
        let last = last.map_or_else(String::new, |text| format!("; its last words were: {text}"));
        return Err(CallError::new(kind, format!("the agent ended without an answer ({ending}){last}")));
    };
    Ok(vec![Content::json(text.clone()).unwrap_or_else(|_| Content::text(text.clone()))])
}

impl BuiltInTool for AgentTool {
    fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        self.call_in(call, context, CallSession::default())
    }

    fn call_in(
        &self,
        call: ValidatedCall,
        context: CallContext,
        session: CallSession,
    ) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let task = call.arguments().get("task").and_then(Value::as_str).unwrap_or_default().to_owned();
            let parent = ParentSession { session, actor: context.actor, reserved: Mutex::default() };
            let (outcome, metadata) = self.run(task, &parent).await;
            Ok(CallResult { id: context.id, tool: self.tool.full_name().to_owned(), outcome, metadata })
        })
    }
}
