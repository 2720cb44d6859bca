//! The check of a call against the flows of data of its session or program.

use fumehood_core::call::CallContext;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::chat::Usage;
use fumehood_core::flow::FlowPolicy;
use fumehood_core::policy::call::{CallQuestion, Decision, ProposedCall};
use fumehood_core::tool::ValidatedCall;
use serde_json::Value;

use super::abort::Abort;
use super::dispatch::Dispatch;
use crate::execution::Status;
use crate::registry::RegisteredTool;
use crate::tool_search::SEARCH_TOOLS;

/// The source of decisions on flows, in records.
pub(super) const FLOWS: &str = "flows";

impl Dispatch<'_> {
    /// Refuses a call that would send private data to the public, or has a person asked about it.
    ///
    /// The arguments of a call never change after this check, so a source that starts later does not concern it.
    pub(super) async fn check_flow(
        &mut self,
        found: &RegisteredTool,
        call: &ValidatedCall,
        context: &CallContext,
    ) -> Result<(), Abort> {
        let Some(policy) = self.config.flows.as_ref().filter(|_| !found.is_of_pipeline()) else { return Ok(()) };
        let find = |name: &str| self.config.registry.find(name).map(|found| found.tool);
        let decision = policy.decide(&found.tool, &self.batch.calls_before(policy), find);
        let tool = found.tool.full_name();
        let is_approved = |(name, arguments): &(String, Value)| name == tool && arguments == call.arguments();
        // A hook that changed the call leads through the checks once more.
        if decision == Decision::Allow || self.approved_flow.as_ref().is_some_and(is_approved) {
            return Ok(());
        }
        if let Some(question) = self.record_verdict(FLOWS, &decision, call.arguments(), Usage::default()).await? {
            let proposed = ProposedCall::new(call, context);
            self.ask_approver(&found.tool, CallQuestion { from: FLOWS.to_owned(), question, proposed }).await?;
            self.approved_flow = Some((tool.to_owned(), call.arguments().clone()));
        }
        Ok(())
    }

    /// Adds the call, which starts now, to the history of its session and program.
    pub(super) fn start_in_history(&self, found: &RegisteredTool) {
        // Programs and searches read nothing themselves.
        if found.is_of_pipeline() || found.tool.full_name() == SEARCH_TOOLS {
            self.batch.scope.history.count()
        } else {
            self.batch.start_call(found.tool.full_name())
        }
    }

    /// Refuses a direct call if the fuel that sessions share has run out since its batch began.
    pub(super) fn check_tenant_fuel(&self) -> Result<(), Abort> {
        let allowance = self.batch.scope.allowance.as_ref();
        if self.batch.is_program() || allowance.is_none_or(|allowance| allowance.has_tenant_fuel()) {
            return Ok(());
        }
        let error = CallError::new(ErrorKind::BudgetExhausted, "[budget exhausted — no fuel of the tenant left]");
        Err(Abort::refusal(Status::RejectedBudget, error.with_hint("answer with what you have")))
    }

    /// Takes the fuel of a call that has ended from the budgets.
    pub(super) fn spend_fuel(&self, used: u64) {
        if let Some(allowance) = &self.batch.scope.allowance {
            allowance.spend_fuel(used);
        }
    }
}

/// Checks that labels are of tools that exist: a misspelt name would silently protect nothing.
pub(super) fn unknown_labelled_tool(policy: &FlowPolicy, contains: impl Fn(&str) -> bool) -> Option<String> {
    policy.labelled_tools().find(|name| !contains(name)).map(str::to_owned)
}
