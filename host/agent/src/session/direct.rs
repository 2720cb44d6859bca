//! Runs of skills that no model runs: one call, whose result is the answer.

use fumehood_core::chat::Response;
use fumehood_core::time::Timestamp;

use super::input::Action;
use super::machine::{Session, StepEnd};
use super::pending::{Pending, Slot};
use super::synthetic::{self, Reason};
use super::transcript::{Ending, StepKind};
use crate::execution::ToolExecution;
use crate::executor::BatchEnd;
use crate::run_settings::SkillCall;

impl Session {
    /// Begins the call of a skill. It counts towards the budget like one of a model.
    pub(super) fn begin_skill_call(&mut self, call: SkillCall, now: Timestamp) -> Action {
        self.draft.started_at = now;
        if let Some(budget) = self.call_budget(now) {
            self.end_step(StepEnd::error(format!("no {budget} left for the call")), now);
            return self.finish_exhausted(budget, now);
        }
        let SkillCall { mut intent, refused } = call;
        intent.id = self.next_own_id();
        self.spent.count_calls(1);
        let slot = match refused {
            None => Slot::Run(intent),
            Some(message) => {
                let id = self.next_own_id();
                let reason = Reason::Driver(message);
                Slot::Done(Box::new(synthetic::rejected_call(id, intent, reason, now)))
            }
        };
        self.start(Pending::new(Response::text(""), String::new(), vec![slot], None), now)
    }

    /// Ends the run with the end of its call.
    pub(super) fn end_skill_call(
        &mut self,
        pending: Pending,
        ended: Option<BatchEnd>,
        answer: Option<String>,
        now: Timestamp,
    ) -> Action {
        let (_, _, _, slots) = pending.into_parts();
        let (executions, own) = self.merge(slots, || Reason::Skipped, now);
        if let Some(run) = &mut self.run {
            run.append_calls(&executions);
        }
        let ending = match ended {
            Some(BatchEnd::Stop { reason }) => Ending::Stopped { reason },
            Some(BatchEnd::Failed { .. } | BatchEnd::Blocked { .. }) | None => self.skill_ending(&executions, answer),
        };
        let (kind, text) = match &ending {
            Ending::ToolFailed { message, .. } | Ending::InvalidAnswer { message, .. } => {
                (StepKind::Error(message.clone()), String::new())
            }
            ending => (StepKind::ToolCalls, ending.text().unwrap_or_default().to_owned()),
        };
        self.end_step(StepEnd { response: None, text, executions, own, output: Vec::new(), kind }, now);
        self.finish(ending, now)
    }

    /// Returns the ending of a run whose call has ended: its result, if it is one and matches the schema.
    fn skill_ending(&self, executions: &[ToolExecution], answer: Option<String>) -> Ending {
        let Some(execution) = executions.first() else {
            let message = "the call was not made".to_owned();
            return Ending::ToolFailed { tool: String::new(), message };
        };
        if let Some(error) = execution.error() {
            let advice = error.advice().map(|advice| format!(" ({advice})")).unwrap_or_default();
            return Ending::ToolFailed {
                tool: execution.call.name.clone(),
                message: format!("{}{advice}", error.message),
            };
        }
        // An executor that gives no answer has what a model may see.
        let text = answer.unwrap_or_else(|| execution.result.text().unwrap_or_default().into_owned());
        match self.output().map(|schema| schema.check_result(&text)) {
            None => Ending::Answered { text },
            Some(Ok(text)) => Ending::Answered { text },
            Some(Err(message)) => Ending::InvalidAnswer { text, message },
        }
    }
}
