//! The approver at a terminal: asks a person about calls and about more turns.

use anyhow::Result;
use fumehood::agent::approver::{Answer, Approver, Question};
use fumehood::boxed::BoxFuture;

use super::call_progress::CallProgress;
use crate::question;
use crate::render::quotation::{Quotation, one_line};
use crate::render::{self, STRONG, styled};

/// An [`Approver`] that asks the person at the terminal.
pub(crate) struct TerminalApprover {
    progress: CallProgress,
    /// Held while a question is open, so that concurrent calls ask one after the other.
    turn: tokio::sync::Mutex<()>,
}

impl TerminalApprover {
    /// Creates an approver; `None` if there is no terminal to ask at.
    pub(crate) fn from_terminal(progress: CallProgress) -> Option<Self> {
        question::can_ask().then(|| Self { progress, turn: tokio::sync::Mutex::new(()) })
    }
}

impl Approver for TerminalApprover {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            let paused = self.progress.pause();
            let is_allowed = question::ask_with(|| show(question)).await;
            drop(paused);
            match is_allowed {
                true => Answer::Allow,
                false => Answer::Deny { reason: "the person at the terminal said no".to_owned() },
            }
        })
    }
}

/// Shows a question. Text of a model, a judge or a tool is quoted behind the bar. A call is shown in full, because an
/// approval allows all of it.
fn show(question: Question<'_>) -> Result<()> {
    let mark = styled(STRONG, "?");
    match question {
        Question::Budget(budget) => render::note(&format!("{mark} {}", one_line(&budget.text))),
        Question::Call(call) => {
            render::note(&format!("{mark} A call waits for an answer"));
            let mut quotation = Quotation::for_stderr();
            quotation.write_block(2, &call.question)?;
            quotation.write_block(2, &format!("{} {}", one_line(&call.proposed.tool), call.proposed.arguments))?;
        }
    }
    Ok(())
}
