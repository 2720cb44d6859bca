//! Asks the person at the terminal about calls and about more turns.

use anyhow::Result;
use fumehood::agent::approver::{Answer, Approver, Question};
use fumehood::boxed::BoxFuture;

use super::call_progress::CallProgress;
use crate::question;
use crate::render::paragraph::one_line;
use crate::render::quotation::Quotation;
use crate::render::{self, STRONG, styled};

/// The person at the terminal.
pub(crate) struct TerminalApprover {
    chips: CallProgress,
    /// Questions come one after the other, whatever runs at the same time.
    turn: tokio::sync::Mutex<()>,
}

impl TerminalApprover {
    /// Finds somebody to ask, if there is a terminal to ask at.
    pub(crate) fn find(chips: CallProgress) -> Option<Self> {
        question::can_ask().then(|| Self { chips, turn: tokio::sync::Mutex::new(()) })
    }
}

impl Approver for TerminalApprover {
    fn ask<'a>(&'a self, asked: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            let quiet = self.chips.quiet();
            let is_allowed = question::ask_below(|| show(asked)).await;
            drop(quiet);
            match is_allowed {
                true => Answer::Allow,
                false => Answer::Deny { reason: "the person at the terminal said no".to_owned() },
            }
        })
    }
}

/// Shows a question. What a model, a judge or a tool wrote of it stands behind the bar, and all of a call is shown: whoever
/// allows it allows all of it.
fn show(asked: Question<'_>) -> Result<()> {
    let mark = styled(STRONG, "?");
    match asked {
        Question::Budget(question) => render::note(&format!("{mark} {}", one_line(&question.text))),
        Question::Call(call) => {
            render::note(&format!("{mark} A call waits for an answer"));
            let mut quotation = Quotation::for_stderr();
            quotation.block(2, &call.question)?;
            quotation.block(2, &format!("{} {}", one_line(&call.proposed.tool), call.proposed.arguments))?;
        }
    }
    Ok(())
}
