//! The stage of a dispatch that asks a person: with an answer that was given before, at once, or later.

use fumehood_core::call::Arguments;
use fumehood_core::chat::Usage;
use fumehood_core::digest::Digest;
use fumehood_core::policy::call::{Answer, CallQuestion, Decision, Question};
use fumehood_core::record::RecordKind;
use fumehood_core::telemetry;
use fumehood_core::tool::Tool;
use serde_json::json;

use super::abort::Abort;
use super::dispatch::Dispatch;
use super::flows::FLOWS;
use crate::catch_panic::{catch_panic, catch_panic_sync};
use crate::deferred::{CallAnswer, DeferredCall};
use crate::execution::Status;

/// The source of a person's decisions, in records.
const PERSON: &str = "human";

impl Dispatch<'_> {
    /// Asks a person about a call, unless an answer was given before: it holds for this tool with the same code,
    /// definition and powers, and for the same arguments. Without anybody to ask, the call is refused.
    pub(super) async fn ask_approver(&mut self, tool: &Tool, question: CallQuestion) -> Result<(), Abort> {
        let binding = bind(tool, &question);
        let answer = match self.earlier_answer(&binding) {
            Some(answer) => Ok(answer),
            None => {
                let Some(approver) = &self.config.approver else { return Err(nobody_to_ask(&question)) };
                let asking = self.batch.open_question();
                let answer = catch_panic(approver.ask(Question::Call(&question))).await;
                drop(asking);
                answer
            }
        };
        if answer == Ok(Answer::Defer) {
            return Err(self.defer(question, binding).await);
        }
        let is_allowed = matches!(answer, Ok(Answer::Allow));
        telemetry::emit_call_approval(&question.proposed.tool, &self.call.id, is_allowed);
        let decision = match answer {
            Ok(Answer::Allow) => Decision::Allow,
            Ok(Answer::Deny { reason }) if reason.is_empty() => Decision::deny("no"),
            Ok(Answer::Deny { reason }) => Decision::deny(reason),
            Ok(Answer::Defer) => Decision::deny("no person can answer now"),
            Err(panic) => Decision::deny(format!("no person could be asked: {panic}")),
        };
        let decision: Decision<Arguments> = decision;
        self.record_verdict(PERSON, &decision, &question.proposed.arguments, Usage::default()).await.map(drop)
    }

    /// Refuses a call about which nobody is asked now, and to which the last answer was no: rules that are gone do not
    /// undo what a person refused.
    pub(super) fn check_refusal(&self) -> Result<(), Abort> {
        match self.answers().next_back() {
            Some(answer) if !answer.given.yes => {
                Err(Abort::denial(format!("denied by {PERSON}: {}", answer.given.reason)))
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
    async fn defer(&mut self, question: CallQuestion, binding: Digest) -> Abort {
        let (call, inner) = match self.batch.program_call() {
            None => (self.call.id.clone(), None),
            Some(_) if self.batch.scope.programs.is_none() => return nobody_to_ask(&question),
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

/// Refuses a call that needs approval where nobody can be asked.
fn nobody_to_ask(question: &CallQuestion) -> Abort {
    Abort::refusal(Status::RejectedDenied, question.unanswered())
}
