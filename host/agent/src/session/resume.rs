//! The place at which a session stands: the action whose outcome it waits for, after a replay or a stop of the program.

use std::sync::Arc;

use fumehood_core::chat::ToolIntent;

use super::budget::BudgetKind;
use super::input::{Action, BudgetQuestion, RecordedInput, StepError};
use super::machine::{Session, Waiting};
use super::transcript::Ending;

impl Session {
    /// Returns the calls whose results the session waits for, if it waits for results.
    #[must_use]
    pub fn pending_calls(&self) -> Vec<ToolIntent> {
        match &self.waiting {
            Waiting::Tools(pending) => pending.calls(),
            _ => Vec::new(),
        }
    }

    pub(super) fn question(&self) -> BudgetQuestion {
        let turns = self.config.budget.turns.max(1);
        let used = self.spent.turns;
        let text = format!("The model has not finished after {used} requests. Allow {turns} more?");
        BudgetQuestion { about: BudgetKind::Turns, text }
    }

    /// Returns the action whose outcome the session waits for. Without a run there is none, and it has ended.
    pub(super) fn current_action(&self) -> Action {
        match &self.waiting {
            Waiting::Model { .. } => match &self.draft.input {
                Some(request) => Action::AskModel(Arc::clone(request)),
                None => Action::Finish(Ending::Cancelled),
            },
            Waiting::Tools(pending) => Action::RunTools(pending.calls()),
            Waiting::Approver => Action::AskApprover(self.question()),
            Waiting::Answers(pending) => Action::AwaitAnswers(pending.asked.clone()),
            Waiting::User => Action::Finish(Ending::Cancelled),
        }
    }
}

/// Replays recorded inputs, and returns the actions.
///
/// # Errors
/// At the first input that the session does not wait for: the record belongs to another session, or is incomplete.
pub fn replay(session: &mut Session, inputs: Vec<RecordedInput>) -> Result<Vec<Action>, StepError> {
    inputs.into_iter().map(|recorded| session.step(recorded.input, recorded.at)).collect()
}
