//! Hooks on the two sides of a call.

use std::sync::Arc;

use fumehood_core::error_kind::ErrorKind;
use fumehood_core::record::RecordKind;
use fumehood_core::result::{CallError, CallResult};
use serde_json::json;

use super::abort::Abort;
use super::call_state::Dispatch;
use super::checks::{AuthorizedCall, RawArguments};
use crate::catch_panic::catch_panic;
use crate::execution::Status;
use crate::hook::{After, BLOCKED, Before, Diagnosis, ToolUse, ToolUsed, rejected};
use crate::registry::Stop;

impl Dispatch<'_> {
    /// Runs the hooks before the call. A call that they changed goes through every check again.
    pub(super) async fn before(&mut self, authorized: AuthorizedCall) -> Result<AuthorizedCall, Abort> {
        if self.parts.before.is_empty() {
            return Ok(authorized);
        }
        let mut call = ToolUse {
            id: self.call.id.clone(),
            tool: authorized.invocation.tool.clone(),
            arguments: authorized.invocation.arguments.clone(),
            state: self.batch.state(),
            actor: self.batch.scope.actor.clone(),
            annotations: authorized.tool.contract().spec().annotations,
        };
        let blocked = |message: String| Abort::refused(Status::Blocked, CallError::new(ErrorKind::Denied, message));
        let outcome = catch_panic(self.parts.before.run(&mut call)).await;
        let outcome = outcome.map_err(|said| blocked(format!("a hook before the call failed: {said}")))?;
        self.diagnosed(&outcome.diagnoses).await?;
        if outcome.state_changed {
            self.batch.set_state(call.state);
        }
        match outcome.before {
            Before::Continue => {}
            Before::Block { message } => return Err(blocked(message.unwrap_or_else(|| BLOCKED.to_owned()))),
            Before::Stop { reason } => return Err(Abort::Stop(Stop { reason })),
        }
        if outcome.changed {
            return self.clear(&call.tool, RawArguments::Value(call.arguments)).await;
        }
        let mut authorized = authorized;
        if outcome.state_changed && authorized.tool.wants_state() {
            Arc::make_mut(&mut authorized.invocation).state = self.batch.state();
        }
        Ok(authorized)
    }

    /// Runs the hooks after the call. What they leave is what the agent gets.
    pub(super) async fn after(&mut self, authorized: &AuthorizedCall, result: CallResult) -> Result<CallResult, Abort> {
        if self.parts.after.is_empty() {
            return Ok(result);
        }
        let mut used = ToolUsed {
            id: self.call.id.clone(),
            tool: authorized.invocation.tool.clone(),
            arguments: authorized.invocation.arguments.clone(),
            outcome: result.outcome.clone(),
            state: self.batch.state(),
            actor: self.batch.scope.actor.clone(),
            annotations: authorized.tool.contract().spec().annotations,
        };
        let outcome = match catch_panic(self.parts.after.run(&mut used)).await {
            Ok(outcome) => outcome,
            // Nobody knows what the hook would have taken out.
            Err(said) => return Ok(rejected(&result, &format!("a hook after the call failed: {said}"))),
        };
        if let Err(Abort::Refused(refusal)) = self.diagnosed(&outcome.diagnoses).await {
            return Ok(rejected(&result, &refusal.error.message));
        }
        if outcome.state_changed {
            self.batch.set_state(used.state);
        }
        match outcome.after {
            After::Continue => Ok(CallResult { outcome: used.outcome, ..result }),
            After::Reject { reason } => {
                let body = json!({"by": "after_hook", "reason": reason});
                // The result is withheld whether or not that can be recorded.
                let _recorded = self.journal.put(RecordKind::Verdict, Some("reject"), || body).await;
                Ok(rejected(&result, &reason))
            }
            After::Stop { reason } => Err(Abort::Stop(Stop { reason })),
        }
    }

    /// Changes that were not declared were undone. In strict mode they fail the call, otherwise they are recorded.
    async fn diagnosed(&mut self, diagnoses: &[Diagnosis]) -> Result<(), Abort> {
        for diagnosis in diagnoses {
            if self.parts.modes.strict_hooks {
                let error = CallError::new(ErrorKind::Host, diagnosis.to_string());
                return Err(Abort::refused(Status::Blocked, error));
            }
            let body = || json!({"by": diagnosis.hook, "reason": diagnosis.to_string()});
            self.journal.put(RecordKind::Verdict, Some("undeclared_change"), body).await?;
        }
        Ok(())
    }
}
