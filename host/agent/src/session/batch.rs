//! The batches of a session: the calls that the model requests, and their results.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fumehood_core::call::history::{CallHistory, PastCall};
use fumehood_core::chat::{Response, ToolIntent};
use fumehood_core::time::Timestamp;

use super::breaker::CIRCUIT_OPEN_MESSAGE;
use super::budget::BudgetKind;
use super::config::OnRepetition;
use super::input::Action;
use super::machine::{Session, StepEnd, Waiting};
use super::pending::{Pending, Slot};
use super::synthetic::{self, Reason};
use super::transcript::{Ending, PhaseKind, StepKind};
use crate::execution::ToolExecution;
use crate::executor::{BatchEnd, BatchOutcome, StoppedBatch};
use crate::tool_search::{SEARCH_TOOLS, all_shown};

impl Session {
    /// Returns the full names of the tools that searches of this session have shown to the model, in order.
    #[must_use]
    pub fn shown_tools(&self) -> Vec<String> {
        let runs = self.transcript().runs.iter().map(Arc::as_ref).chain(&self.run);
        all_shown(runs.flat_map(|run| &run.steps).flat_map(|step| &step.executions))
    }

    pub(super) fn handle_calls(
        &mut self,
        response: Response,
        text: String,
        calls: Vec<ToolIntent>,
        refused: Vec<(usize, String)>,
        now: Timestamp,
    ) -> Action {
        let calls = self.assign_ids(calls);
        let mut refused: HashMap<usize, String> = refused.into_iter().collect();
        let streaks = self.streaks.record(&calls);
        let repeated = self.config.repetition;
        let too_often = |times: u32| repeated.is_some_and(|repetition| times >= repetition.times.get());
        let mut end = None;
        let looped = calls.iter().zip(&streaks).find(|(_, times)| too_often(**times));
        if let (Some((call, times)), OnRepetition::End) = (looped, repeated.map(|r| r.then).unwrap_or_default()) {
            end = Some(Ending::LoopDetected { tool: call.name.clone(), times: *times });
        }
        let ends_by_loop = end.is_some();
        let was_prose_only = self.prose_only;
        if was_prose_only && calls.is_empty() {
            end = self.ending_for(BudgetKind::Calls, true, &text);
        }
        let mut slots = Vec::with_capacity(calls.len());
        for (index, (call, times)) in calls.into_iter().zip(streaks).enumerate() {
            let budget = if was_prose_only { Some(BudgetKind::Calls) } else { self.call_budget(now) };
            let reason = match (budget, refused.remove(&index)) {
                (Some(budget), _) => {
                    end = end.or_else(|| self.ending_for(budget, was_prose_only, &text));
                    self.prose_only |= budget == BudgetKind::Calls;
                    Some(Reason::Budget(budget))
                }
                (None, Some(message)) => Some(Reason::Driver(message)),
                (None, None) if too_often(times) => Some(Reason::Repeated(times)),
                (None, None) => ends_by_loop.then_some(Reason::Skipped),
            };
            if budget.is_none() {
                self.spent.count_calls(1);
            }
            slots.push(match reason {
                Some(reason) => Slot::Done(Box::new(synthetic::rejected_call(self.next_own_id(), call, reason, now))),
                None => Slot::Run(call),
            });
        }
        self.start(Pending::new(response, text, slots, end), now)
    }

    pub(super) fn call_budget(&self, now: Timestamp) -> Option<BudgetKind> {
        self.config.budget.check_call(&self.spent, now)
    }

    /// Returns the ending of a run with a call over the budget.
    ///
    /// The limit on calls for one message does not end the run at first: the model is asked for prose. If it calls
    /// again after that, the run ends.
    fn ending_for(&self, budget: BudgetKind, was_prose_only: bool, text: &str) -> Option<Ending> {
        let asks_for_prose = budget == BudgetKind::Calls && !was_prose_only;
        (!asks_for_prose).then(|| Ending::BudgetExhausted { budget, text: text.to_owned() })
    }

    pub(super) fn start(&mut self, pending: Pending, now: Timestamp) -> Action {
        if let Some(run) = &mut self.run {
            run.enter(PhaseKind::Execute, now);
        }
        let calls = pending.calls();
        if calls.is_empty() {
            return self.handle_outcome(pending, BatchOutcome::new(Vec::new(), None), now);
        }
        self.waiting = Waiting::Tools(Box::new(pending));
        Action::RunTools(calls)
    }

    pub(super) fn handle_outcome(&mut self, pending: Pending, outcome: BatchOutcome, now: Timestamp) -> Action {
        self.end_batch(pending, outcome, || Reason::Skipped, now)
    }

    /// Continues after a batch that was cut off: calls without an execution are told as interrupted.
    pub(super) fn handle_interrupted(&mut self, pending: Pending, outcome: BatchOutcome, now: Timestamp) -> Action {
        // What they did is not known, and a program may have called any tool.
        let number = self.spent.calls_in_all;
        let cut_off = pending.calls().into_iter().filter(|call| {
            call.name != SEARCH_TOOLS && !outcome.executions.iter().any(|execution| execution.call.id == call.id)
        });
        self.add_first_calls(cut_off.map(|call| PastCall { tool: call.name, number }).collect());
        self.end_batch(pending, outcome, || Reason::ProgramStopped, now)
    }

    fn end_batch(
        &mut self,
        mut pending: Pending,
        outcome: BatchOutcome,
        missing: impl Fn() -> Reason,
        now: Timestamp,
    ) -> Action {
        self.add_usage(outcome.usage);
        self.spent.count_calls(outcome.program_calls);
        self.add_first_calls(outcome.first_calls);
        for execution in &outcome.executions {
            self.spent.fuel = self.spent.fuel.saturating_add(execution.result.metadata.fuel_used);
        }
        let failed_call = match &outcome.ended {
            Some(BatchEnd::Failed { index }) => failed_call(&outcome.executions, *index),
            _ => None,
        };
        if !outcome.tools.is_empty() {
            self.driver.add_tools(outcome.tools);
        }
        pending.answer = outcome.answer;
        // What ends the run ends the calls that wait as well.
        let deferred = if outcome.ended.is_none() { outcome.deferred } else { Vec::new() };
        pending.settle(outcome.executions, &deferred, |call| {
            Box::new(synthetic::rejected_call(self.next_own_id(), call, missing(), now))
        });
        if outcome.ended.is_none() && pending.has_waiting() {
            return self.await_answers(pending, deferred, now);
        }
        self.complete_batch(pending, outcome.ended, failed_call, now)
    }

    /// Ends a batch of which every call has ended.
    fn complete_batch(
        &mut self,
        mut pending: Pending,
        ended: Option<BatchEnd>,
        failed_call: Option<(String, String)>,
        now: Timestamp,
    ) -> Action {
        if self.settings.call.is_some() {
            let answer = pending.answer.take();
            return self.end_skill_call(pending, ended, answer, now);
        }
        let (response, text, end, slots) = pending.into_parts();
        let (executions, own) = self.merge(slots, || Reason::Skipped, now);
        let output = self.driver.trace(&response, &executions);
        self.trace.extend(output.iter().cloned());
        let open = self.breaker.record_batch(&executions);
        if let Some(run) = &mut self.run {
            run.append_calls(&executions);
        }
        let ending = match ended {
            Some(BatchEnd::Stop { reason }) => Some(Ending::Stopped { reason }),
            Some(BatchEnd::Failed { .. }) => {
                let (tool, message) = failed_call.unwrap_or_default();
                Some(Ending::ToolFailed { tool, message })
            }
            Some(BatchEnd::Blocked { .. }) | None => {
                end.or_else(|| open.then(|| Ending::CircuitOpen { text: CIRCUIT_OPEN_MESSAGE.to_owned() }))
            }
        };
        let kind = match &ending {
            Some(Ending::ToolFailed { message, .. }) => StepKind::Error(message.clone()),
            _ => StepKind::ToolCalls,
        };
        self.end_step(StepEnd { response: Some(response), text, executions, own, output, kind }, now);
        match ending {
            Some(ending) => self.finish(ending, now),
            None => {
                if let Some(run) = &mut self.run {
                    run.enter(PhaseKind::Deliberate, now);
                }
                self.ask(now)
            }
        }
    }

    /// Ends the run with a batch that was stopped by a limit or a cancellation.
    pub(super) fn handle_stopped(
        &mut self,
        pending: Pending,
        batch: StoppedBatch,
        budget: Option<BudgetKind>,
        now: Timestamp,
    ) -> Action {
        self.spent.count_calls(batch.program_calls);
        self.spent.fuel = self.spent.fuel.saturating_add(batch.fuel);
        self.add_first_calls(batch.first_calls);
        self.interrupt_batch(pending, budget, now);
        match budget {
            Some(budget) => self.finish_exhausted(budget, now),
            None => self.finish(Ending::Cancelled, now),
        }
    }

    /// Adds calls of tools that were not called before.
    fn add_first_calls(&mut self, calls: Vec<PastCall>) {
        let first = &mut self.transcript.first_calls;
        for call in calls {
            if !first.iter().any(|known| known.tool == call.tool) {
                first.push(call);
            }
        }
    }

    /// Returns the history of the session, to be continued by a batch of this number of calls, which are counted already.
    pub(crate) fn history(&self, calls: usize) -> CallHistory {
        let before = self.spent.calls_in_all.saturating_sub(u64::try_from(calls).unwrap_or(u64::MAX));
        CallHistory::resumed(before, self.transcript.first_calls.clone())
    }

    /// Ends a step whose calls have no results: they were stopped, or never started for want of the tenant's fuel.
    pub(super) fn interrupt_batch(&mut self, pending: Pending, budget: Option<BudgetKind>, now: Timestamp) {
        let (response, text, _, slots) = pending.into_parts();
        let reason = || match budget {
            Some(BudgetKind::TenantFuel) => Reason::Budget(BudgetKind::TenantFuel),
            _ => Reason::Interrupted,
        };
        let (executions, own) = self.merge(slots, reason, now);
        if let Some(run) = &mut self.run {
            run.append_calls(&executions);
        }
        let response = self.settings.call.is_none().then_some(response);
        let kind = StepKind::ToolCalls;
        let output = Vec::new();
        self.end_step(StepEnd { response, text, executions, own, output, kind }, now);
    }

    /// Returns one execution for each slot, in order, and the positions of those that the session itself made. Calls
    /// that ran and have no result get this reason.
    pub(super) fn merge(
        &mut self,
        slots: Vec<Slot>,
        missing: impl Fn() -> Reason,
        now: Timestamp,
    ) -> (Vec<ToolExecution>, Vec<usize>) {
        let mut merged = Vec::with_capacity(slots.len());
        let mut own = Vec::new();
        for slot in slots {
            let (call, reason) = match slot {
                Slot::Ran(execution) => {
                    merged.push(*execution);
                    continue;
                }
                Slot::Done(execution) => {
                    own.push(merged.len());
                    merged.push(*execution);
                    continue;
                }
                Slot::Run(call) => (call, missing()),
                Slot::Waits(call) => (call, Reason::NotAnswered),
            };
            own.push(merged.len());
            merged.push(synthetic::rejected_call(self.next_own_id(), call, reason, now));
        }
        (merged, own)
    }

    /// Assigns a new id to each call without one, or with that of an earlier call of the same reply.
    pub(super) fn assign_ids(&mut self, mut calls: Vec<ToolIntent>) -> Vec<ToolIntent> {
        let mut seen = HashSet::with_capacity(calls.len());
        for call in &mut calls {
            while call.id.is_empty() || seen.contains(&call.id) {
                call.id = self.next_own_id();
            }
            seen.insert(call.id.clone());
        }
        calls
    }
}

/// Returns the tool and the error message of the call that ended a batch.
fn failed_call(executions: &[ToolExecution], index: usize) -> Option<(String, String)> {
    let failed = executions.get(index).filter(|execution| execution.has_error());
    let failed = failed.or_else(|| executions.iter().find(|execution| execution.has_error()))?;
    Some((failed.call.name.clone(), failed.error_message().to_owned()))
}
