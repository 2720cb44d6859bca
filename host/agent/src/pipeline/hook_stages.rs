//! The stages of a dispatch that run hooks before and after the call.

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::record::RecordKind;
use fumehood_core::tool::Stop;
use serde_json::json;

use super::abort::Abort;
use super::checks::AuthorizedCall;
use super::dispatch::Dispatch;
use super::hook::{
    AfterAction, BeforeAction, CompletedToolUse, DEFAULT_BLOCK_MESSAGE, ToolUse, UndeclaredChange, reject,
};
use crate::catch_panic::catch_panic;
use crate::execution::Status;

impl Dispatch<'_> {
    /// Runs the hooks before the call. A call that they changed goes through every check again.
    pub(super) async fn run_before_hooks(&mut self, authorized: AuthorizedCall) -> Result<AuthorizedCall, Abort> {
        let mut call = ToolUse {
            id: self.call.id.clone(),
            tool: authorized.call.tool().full_name().to_owned(),
            arguments: authorized.call.arguments().clone(),
            state: self.batch.state(),
            actor: self.batch.scope.actor.clone(),
            annotations: authorized.call.tool().definition().annotations,
        };
        let outcome = catch_panic(self.config.before.run(&mut call)).await;
        let outcome = outcome.map_err(|panic| blocked_call(format!("a hook before the call failed: {panic}")))?;
        self.handle_undeclared_changes(&outcome.undeclared_changes).await?;
        if outcome.state_changed {
            self.batch.set_state(call.state);
        }
        match outcome.action {
            BeforeAction::Continue => {}
            BeforeAction::Block { message } => {
                return Err(blocked_call(message.unwrap_or_else(|| DEFAULT_BLOCK_MESSAGE.to_owned())));
            }
            BeforeAction::Stop { reason } => return Err(Abort::Stop(Stop { reason })),
        }
        if outcome.changed {
            return self.check(&call.tool, Some(call.arguments)).await;
        }
        let mut authorized = authorized;
        if outcome.state_changed {
            authorized.context.state = self.batch.state();
        }
        Ok(authorized)
    }

    /// Runs the hooks after the call and returns the result as they leave it.
    pub(super) async fn run_after_hooks(
        &mut self,
        authorized: &AuthorizedCall,
        result: CallResult,
    ) -> Result<CallResult, Abort> {
        let mut used = CompletedToolUse {
            id: self.call.id.clone(),
            tool: authorized.call.tool().full_name().to_owned(),
            arguments: authorized.call.arguments().clone(),
            outcome: result.outcome.clone(),
            state: self.batch.state(),
            actor: self.batch.scope.actor.clone(),
            annotations: authorized.call.tool().definition().annotations,
        };
        let outcome = match catch_panic(self.config.after.run(&mut used)).await {
            Ok(outcome) => outcome,
            // The hook may have been about to remove a part of the result, so all of it is withheld.
            Err(panic) => return Ok(reject(&result, &format!("a hook after the call failed: {panic}"))),
        };
        if let Err(Abort::Refused(refusal)) = self.handle_undeclared_changes(&outcome.undeclared_changes).await {
            return Ok(reject(&result, &refusal.error.message));
        }
        if outcome.state_changed {
            self.batch.set_state(used.state);
        }
        match outcome.action {
            AfterAction::Continue => Ok(CallResult { outcome: used.outcome, ..result }),
            AfterAction::Reject { reason } => {
                let body = json!({"by": "after_hook", "reason": reason});
                // The result is withheld whether or not that can be recorded.
                let _recorded = self.journal.record(RecordKind::Verdict, Some("reject"), || body).await;
                Ok(reject(&result, &reason))
            }
            AfterAction::Stop { reason } => Err(Abort::Stop(Stop { reason })),
        }
    }

    /// Records changes that hooks did not declare, or in strict mode fails the call. The changes themselves were
    /// undone.
    async fn handle_undeclared_changes(&mut self, changes: &[UndeclaredChange]) -> Result<(), Abort> {
        for change in changes {
            if self.config.modes.strict_hooks {
                let error = CallError::new(ErrorKind::Host, change.to_string());
                return Err(Abort::refusal(Status::Blocked, error));
            }
            let body = || json!({"by": change.hook, "reason": change.to_string()});
            self.journal.record(RecordKind::Verdict, Some("undeclared_change"), body).await?;
        }
        Ok(())
    }
}

fn blocked_call(message: String) -> Abort {
    Abort::refusal(Status::Blocked, CallError::new(ErrorKind::Denied, message))
}
