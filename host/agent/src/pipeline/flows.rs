//! The check of a call against the flows of data of its session or program.

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::chat::Usage;
use fumehood_core::flow::{FlowAction, FlowPolicy};
use fumehood_core::tool::ValidatedCall;

use super::abort::Abort;
use super::dispatch::Dispatch;
use super::guardrail::{CallQuestion, ProposedCall, Ruling, Verdict, VerdictSource};
use crate::execution::Status;
use crate::registry::RegisteredTool;
use crate::tool_search::SEARCH_TOOLS;

impl Dispatch<'_> {
    /// Refuses a call that would send private data to the public, or has a person asked about it.
    ///
    /// The arguments of a call never change after this check, so a source that starts later does not concern it.
    pub(super) async fn check_flow(&mut self, found: &RegisteredTool, call: &ValidatedCall) -> Result<(), Abort> {
        let Some(policy) = self.config.flows.as_ref().filter(|_| !found.is_of_pipeline()) else { return Ok(()) };
        let find = |name: &str| self.config.registry.find(name).map(|found| found.tool);
        let Some(violation) = policy.check(&found.tool, &self.batch.calls_before(policy), find) else { return Ok(()) };
        let tool = found.tool.full_name();
        // A hook that changed the call, or a remedy that makes it again, leads through the checks once more.
        if let Some((name, arguments)) = &self.approved_flow
            && name == tool
            && arguments == call.arguments()
        {
            return Ok(());
        }
        let proposed = self.proposed(call);
        let verdict = match policy.then() {
            FlowAction::Ask => Verdict::Ask { question: violation.to_string() },
            _ => Verdict::Deny { reason: violation.to_string() },
        };
        let ruling = Ruling { source: VerdictSource::Flows, verdict };
        if let Some(question) = self.record_verdict(ruling, &proposed, Usage::default()).await? {
            self.ask_approver(&found.tool, CallQuestion { proposed, ..question }).await?;
            self.approved_flow = Some((tool.to_owned(), call.arguments().clone()));
        }
        Ok(())
    }

    /// Returns the call as rules, judges and people see it.
    pub(super) fn proposed(&self, call: &ValidatedCall) -> ProposedCall {
        let scope = self.batch.scope;
        ProposedCall {
            tool: call.tool().full_name().to_owned(),
            alias: call.tool().alias().map(str::to_owned),
            annotations: call.tool().definition().annotations,
            arguments: call.arguments().clone(),
            actor: scope.actor.clone(),
            skill: scope.skill.clone(),
            session: scope.session.clone(),
        }
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
