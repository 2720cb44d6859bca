//! The stages of a dispatch that run the hooks of an operator.
//!
//! They are next to the tool: they see the arguments that guardrails changed.

use std::sync::Arc;

use fumehood_core::call::result::CallResult;
use fumehood_core::policy::call::{CallQuestion, ProposedCall};
use fumehood_core::record::RecordKind;
use serde_json::json;

use super::abort::Abort;
use super::checks::AuthorizedCall;
use super::dispatch::Dispatch;
use crate::catch_panic::catch_panic;
use crate::execution::Status;

impl Dispatch<'_> {
    /// Runs the hooks of the operator before the call. A call that they changed goes through every check again; then
    /// the approver is asked what they ask.
    pub(super) async fn run_call_hooks_before(&mut self, authorized: AuthorizedCall) -> Result<AuthorizedCall, Abort> {
        let hooks = &self.config.call_hooks;
        let running = hooks.before(authorized.call.clone(), &authorized.context);
        let cleared = match catch_panic(running).await {
            Ok(Ok(cleared)) => cleared,
            Ok(Err(error)) => return Err(Abort::refusal(Status::Blocked, error)),
            Err(panic) => return Err(Abort::denial(format!("a hook before the call failed: {panic}"))),
        };
        let mut authorized = authorized;
        if !cleared.changed_by.is_empty() {
            for hook in &cleared.changed_by {
                self.add_note(format!("the hook `{hook}` changed the arguments"));
            }
            let name = authorized.call.tool().full_name().to_owned();
            authorized = self.check(&name, Some(cleared.call.arguments().clone())).await?;
        }
        for question in cleared.questions {
            let proposed = ProposedCall::new(&authorized.call, &authorized.context);
            let tool = Arc::clone(authorized.call.tool());
            self.ask_approver(&tool, CallQuestion { proposed, ..question }).await?;
        }
        Ok(authorized)
    }

    /// Runs the hooks of the operator after the call, and returns the result as they leave it.
    pub(super) async fn run_call_hooks_after(&mut self, authorized: &AuthorizedCall, result: CallResult) -> CallResult {
        let hooks = &self.config.call_hooks;
        let was_ok = result.is_ok();
        let running = hooks.after(&authorized.call, &authorized.context, result.clone());
        let decided = match catch_panic(running).await {
            Ok(decided) => decided,
            // The hook may have been about to remove a part of the result, so all of it is withheld.
            Err(panic) => result.withhold(&format!("a hook after the call failed: {panic}")),
        };
        if let (true, Some(error)) = (was_ok, decided.error()) {
            let body = json!({"by": "hook", "reason": error.message});
            // The result is withheld whether or not that can be recorded.
            let _recorded = self.journal.record(RecordKind::Verdict, Some("reject"), || body).await;
        }
        decided
    }
}
