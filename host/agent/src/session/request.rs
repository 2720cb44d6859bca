//! The requests of a session: within the budget, with tools or without.

use std::sync::Arc;

use fumehood_core::chat::{Request, ToolChoice};
use fumehood_core::time::Timestamp;

use super::budget::BudgetKind;
use super::images::limit_images;
use super::input::Action;
use super::machine::{Session, StepEnd, Waiting};

impl Session {
    /// Returns the action for the driver's next request, if the budget allows one.
    pub(super) fn ask(&mut self, now: Timestamp) -> Action {
        if let Some(budget) = self.config.budget.check_request(&self.spent, now) {
            return self.handle_exhausted_requests(budget, now);
        }
        if let Some(compaction) = &self.compaction {
            compaction.compact(&mut self.conversation, &mut self.trace);
        }
        limit_images(&mut self.conversation, &mut self.trace, self.config.image_bytes);
        let request = self.driver.request(&self.conversation, &self.trace);
        self.send(request, self.prose_only, false, now)
    }

    /// Returns the action for the request of the final answer, without tools, if the budget allows one.
    pub(super) fn ask_for_final_answer(&mut self, request: Request, now: Timestamp) -> Action {
        match self.config.budget.check_request(&self.spent, now) {
            // The approver is not asked here: after a yes, the driver would make another request in place of this one.
            Some(budget) => {
                self.end_unanswered_step(budget, now);
                self.finish_exhausted(budget, now)
            }
            None => self.send(request, true, true, now),
        }
    }

    fn send(&mut self, mut request: Request, without_calls: bool, final_answer: bool, now: Timestamp) -> Action {
        if without_calls || self.toolless {
            request.tool_choice = ToolChoice::None;
            // Some providers reject a conversation with calls in it if the request has no tools.
            let tells_of_calls = request.messages.iter().any(|message| !message.tool_calls.is_empty());
            if self.toolless || !tells_of_calls {
                request.tools.clear();
            }
        }
        // Only a limit that the driver set is lowered to the rest of the budget. Without one, none is sent: a model
        // rejects a limit above its own.
        if let (Some(wanted), Some(left)) =
            (request.max_tokens, self.config.budget.remaining_answer_tokens(&self.spent))
        {
            request.max_tokens = Some(wanted.min(left));
        }
        self.spent.turns = self.spent.turns.saturating_add(1);
        if self.draft.input.is_none() {
            self.draft.started_at = now;
        }
        let request = Arc::new(request);
        self.draft.input = Some(Arc::clone(&request));
        self.waiting = Waiting::Model { final_answer };
        Action::AskModel(request)
    }

    fn handle_exhausted_requests(&mut self, budget: BudgetKind, now: Timestamp) -> Action {
        if budget == BudgetKind::Turns && self.config.ask_for_turns {
            self.waiting = Waiting::Approver;
            return Action::AskApprover(self.question());
        }
        self.end_unanswered_step(budget, now);
        self.finish_exhausted(budget, now)
    }

    fn end_unanswered_step(&mut self, budget: BudgetKind, now: Timestamp) {
        self.end_step(StepEnd::error(format!("no {budget} left to ask again")), now);
    }
}
