//! The stage of a dispatch that asks a person: with an answer that was given before, at once, or later.

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::digest::Digest;
use fumehood_core::panic::catch_panic_sync;
use fumehood_core::policy::call::{Answer, CallQuestion, FLOWS, PERSON, Question};
use fumehood_core::record::RecordKind;
use fumehood_core::tool::Tool;
use serde_json::json;

use super::abort::Abort;
use super::dispatch::Dispatch;
use crate::deferred::{CallAnswer, DeferredCall};
use crate::execution::Status;

impl Dispatch<'_> {
    /// Asks a person about a call, unless an answer was given before: it holds for this tool with the same code,
    /// definition and powers, and for the same arguments. Returns `None` if nobody can be asked.
    pub(super) async fn ask_approver(&mut self, tool: &Tool, question: &CallQuestion) -> Option<Answer> {
        if let Some(answer) = self.earlier_answer(&bind(tool, question)) {
            return Some(answer);
        }
        let approver = self.config.approver.as_ref()?;
        let _asking = self.batch.open_question();
        Some(approver.ask(Question::Call(question)).await)
    }

    /// Refuses a call about which nobody is asked now, and to which the last answer was no: rules that are gone do not
    /// undo what a person refused.
    pub(super) fn check_refusal(&self) -> Result<(), CallError> {
        match self.answers().next_back() {
            Some(answer) if !answer.given.yes => {
                Err(CallError::new(ErrorKind::Denied, format!("denied by {PERSON}: {}", answer.given.reason)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the answers to this call that were given before.
    fn answers(&self) -> impl DoubleEndedIterator<Item = &CallAnswer> {
        let answers = self.batch.scope.answers.iter();
        answers.filter(|answer| answer.inner.as_ref().unwrap_or(&answer.call) == &self.call.id)
    }

    /// Returns the last answer to this call that was given for exactly this.
    fn earlier_answer(&self, binding: &Digest) -> Option<Answer> {
        let mut answers = self.answers().filter(|answer| answer.binding == *binding);
        let given = &answers.next_back()?.given;
        Some(if given.yes { Answer::Allow } else { Answer::Deny { reason: given.reason.clone() } })
    }

    /// Puts a call off until somebody answers. A call of a program cannot wait where programs are not recorded, and is
    /// refused.
    pub(super) async fn defer(&mut self, tool: &Tool, question: CallQuestion) -> Abort {
        let binding = bind(tool, &question);
        let (call, inner) = match self.batch.program_call() {
            None => (self.call.id.clone(), None),
            Some(_) if self.batch.scope.programs.is_none() => {
                return Abort::refusal(Status::RejectedDenied, question.unanswered());
            }
            Some(call) => (call.to_owned(), Some(self.call.id.clone())),
        };
        let CallQuestion { from, question, proposed } = question;
        let recorded = catch_panic_sync(|| self.persist.arguments(&proposed.arguments)).unwrap_or_default();
        let body = || json!({ "by": PERSON, "reason": question, "arguments": recorded });
        if let Err(error) = self.journal.record(RecordKind::Verdict, Some("defer"), body).await {
            return error.into();
        }
        let tool = proposed.tool;
        let arguments = proposed.arguments;
        Abort::Deferred(vec![DeferredCall { call, inner, tool, arguments, recorded, from, question, binding }])
    }
}

/// Returns the digest of what an answer is about. Who allows a call that a rule asks about has not been asked whether it
/// may send private data, and along another path of data the question is another one. A judge words its questions anew.
fn bind(tool: &Tool, question: &CallQuestion) -> Digest {
    let text = if question.from == FLOWS { question.question.as_str() } else { "" };
    let about = json!([tool.approval_digest(&question.proposed.arguments), question.from, text]);
    Digest::of(about.to_string().as_bytes())
}
