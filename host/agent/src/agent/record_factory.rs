//! The records of the loop itself: each has an id and names the record before it as its parent. The parent of the
//! executor's own records is the answer that asked for the calls.
//!
//! They hold neither arguments nor results of calls, nor raw replies that may hold arguments: the executor records
//! those, because it has the rules for redaction. Other texts of requests and replies are included if the host asks for
//! them.

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::chat::{Message, Request, Response, Role};
use fumehood_core::record::{Record, RecordKind};
use fumehood_core::time::Timestamp;
use serde_json::{Value, json};

use crate::deferred::GivenAnswer;
use crate::drivers::batch::BatchSummary;
use crate::execution::ToolExecution;
use crate::session::transcript::{Ending, Run, Step, StepKind};
use crate::session::{PendingCall, message_bytes};

/// Status of the record of calls that wait.
const WAITING: &str = "waiting_for_approval";

/// Converts a duration to milliseconds, with fractions.
fn to_millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// A factory for the records of one session.
#[derive(Debug)]
pub(super) struct RecordFactory {
    session: String,
    /// The beginning of all ids.
    prefix: String,
    actor: Option<String>,
    count: u64,
    last: Option<String>,
}

impl RecordFactory {
    pub(super) fn new(session: String, actor: Option<String>) -> Self {
        Self { prefix: session.clone(), session, actor, count: 0, last: None }
    }

    /// Creates the factory of a session that was resumed when it had this number of entries, so that ids differ from
    /// those before.
    pub(super) fn resumed(session: String, actor: Option<String>, entries: u64) -> Self {
        Self { prefix: format!("{session}.{entries}"), ..Self::new(session, actor) }
    }

    /// Creates the factory of the process that answers a call of a session with this number of entries. Processes that
    /// do so at the same time have different `writer`s.
    pub(super) fn answering(session: String, actor: Option<String>, entries: u64, writer: &str) -> Self {
        Self { prefix: format!("{session}.{entries}.{writer}"), ..Self::new(session, actor) }
    }

    /// Returns the id of the latest record.
    pub(super) fn last(&self) -> Option<String> {
        self.last.clone()
    }

    /// Returns whether there is no record yet.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn create(&mut self, kind: RecordKind, status: Option<&str>, at: Timestamp, body: Value) -> Record {
        self.count = self.count.saturating_add(1);
        let id = format!("{}-{}", self.prefix, self.count);
        let parent = self.last.replace(id.clone());
        Record {
            id,
            parent,
            session: self.session.clone(),
            at,
            kind,
            actor: self.actor.clone(),
            tool: None,
            digest: None,
            call: None,
            status: status.map(str::to_owned),
            body,
        }
    }

    pub(super) fn for_request(
        &mut self,
        request: &Request,
        model: Option<&str>,
        run: &str,
        turn: u32,
        at: Timestamp,
    ) -> Record {
        let body = json!({
            "run": run,
            "turn": turn,
            "model": request.model.as_deref().or(model),
            "messages": request.messages.len(),
            "prompt_bytes": request.messages.iter().map(message_bytes).fold(0, usize::saturating_add),
            "tools": request.tools.len(),
            "max_tokens": request.max_tokens,
        });
        self.create(RecordKind::ModelAsked, None, at, body)
    }

    pub(super) fn for_response(&mut self, response: &Response, took: Duration, at: Timestamp) -> Record {
        let call = |call: &fumehood_core::chat::ToolIntent| json!({ "id": call.id, "name": call.name });
        let body = json!({
            "bytes": response.reply.text().len(),
            "calls": response.reply.calls().iter().map(call).collect::<Vec<_>>(),
            "usage": response.usage,
            "stop": response.stop,
            "duration_ms": to_millis(took),
        });
        self.create(RecordKind::ModelAnswered, Some("ok"), at, body)
    }

    /// Creates the record of a failed request. `took` is the time until the failure; `body` depends on its cause.
    pub(super) fn for_failure(&mut self, status: &str, took: Duration, mut body: Value, at: Timestamp) -> Record {
        if let Value::Object(body) = &mut body {
            body.insert("duration_ms".to_owned(), to_millis(took).into());
        }
        self.create(RecordKind::ModelFailed, Some(status), at, body)
    }

    /// Creates the records of the steps from `from` on, and of the end of the run if it has ended.
    pub(super) fn for_steps(&mut self, run: &Run, from: usize, at: Timestamp) -> Vec<Record> {
        let mut records = Vec::new();
        let fresh = run.steps.get(from..).unwrap_or_default();
        for (index, step) in fresh.iter().enumerate() {
            let last = index.saturating_add(1) == fresh.len();
            let ending = run.ending.as_ref().filter(|_| last);
            match ending {
                Some(Ending::DecisionFailed { fault, message }) => {
                    let body = json!({ "step": step.number, "message": message });
                    records.push(self.create(RecordKind::DecisionFailed, Some(fault.as_str()), at, body));
                }
                _ => {
                    let own = step.own.iter().filter_map(|position| step.executions.get(*position));
                    records.extend(own.map(|execution| self.for_own_execution(execution, at)));
                }
            }
            records.push(self.for_step(run, step, ending, at));
        }
        if fresh.is_empty()
            && let Some(ending) = &run.ending
        {
            let body = json!({ "run": run.id, "ending": describe_ending(run, ending) });
            records.push(self.create(RecordKind::StepFinished, Some(ending.as_str()), at, body));
        }
        records
    }

    /// Creates the record of calls that wait for the answer of a person.
    pub(super) fn for_waiting(&mut self, run: &str, calls: &[PendingCall], at: Timestamp) -> Record {
        let waiting: Vec<_> = calls.iter().map(PendingCall::to_waiting).collect();
        self.create(RecordKind::StepFinished, Some(WAITING), at, json!({ "run": run, "waiting": waiting }))
    }

    /// Creates the record of an answer to one of the calls.
    pub(super) fn for_answer(
        &mut self,
        id: &str,
        calls: &[PendingCall],
        answer: &GivenAnswer,
        at: Timestamp,
    ) -> Record {
        let GivenAnswer { yes, reason, by } = answer;
        let call = calls.iter().find(|call| call.id == id).map(|call| &call.deferred);
        let body = json!({
            "by": "approver",
            "question": id,
            "reason": (!reason.is_empty()).then_some(reason),
            // As the person said. The host knows no users.
            "name": by,
            "model_call": call.map(|call| &call.call),
            "binding": call.map(|call| call.binding),
        });
        let mut record = self.create(RecordKind::Verdict, Some(if *yes { "allow" } else { "deny" }), at, body);
        record.tool = call.map(|call| call.tool.clone());
        record
    }

    fn for_step(&mut self, run: &Run, step: &Step, ending: Option<&Ending>, at: Timestamp) -> Record {
        let (status, message) = match &step.kind {
            StepKind::ToolCalls => ("tool_calls", None),
            StepKind::FinalResponse => ("final_response", None),
            StepKind::Error(message) => ("error", Some(message)),
        };
        // The text of an error may be a raw reply, and the answer is part of the ending.
        let text = (step.kind == StepKind::ToolCalls && !run.is_skill_call()).then_some(&step.text);
        let mut body = json!({
            "run": run.id,
            "step": step.number,
            "attempts": step.attempts.len(),
            "text": text,
            "executions": step.executions.iter().map(|execution| &execution.id).collect::<Vec<_>>(),
            "usage": step.usage,
        });
        if let Value::Object(body) = &mut body {
            let batch = (step.kind == StepKind::ToolCalls).then(|| BatchSummary::from_executions(&step.executions));
            body.extend(batch.map(|batch| ("batch".to_owned(), json!(batch))));
            let message = message.filter(|_| !run.is_skill_call());
            body.extend(message.map(|message| ("message".to_owned(), json!(message))));
            body.extend(ending.map(|ending| ("ending".to_owned(), describe_ending(run, ending))));
        }
        self.create(RecordKind::StepFinished, Some(status), at, body)
    }

    /// Creates the record of a call that the session itself answered, or that was stopped while it ran.
    fn for_own_execution(&mut self, execution: &ToolExecution, at: Timestamp) -> Record {
        let kind = if execution.status.has_run() { RecordKind::ToolFinished } else { RecordKind::ToolRejected };
        let status = execution.error().map(|error| error.kind.as_str());
        let body = json!({
            "model_call": execution.call.id,
            "status": execution.status,
            "message": execution.error_message(),
            "argument_bytes": execution.args().len(),
        });
        let parent = self.last.clone();
        let mut record = self.create(kind, status, at, body);
        // The record is a leaf: the parent of the step is the answer, not one of its calls.
        self.last = parent;
        record.tool = Some(execution.call.name.clone());
        record.call = Some(execution.id.clone());
        record
    }
}

/// The last request of a session, so that each message is recorded once.
#[derive(Debug, Default)]
pub(super) struct RequestTexts {
    last: Option<Arc<Request>>,
}

impl RequestTexts {
    /// Returns the messages of a request after the prefix that it shares with the last one.
    ///
    /// System and user messages are recorded word for word. Of the others only the size and the id of their execution
    /// is recorded: arguments and results of calls are recorded by the executor, and replies as they were shown.
    /// `is_traced` returns whether a message reports calls of the current run.
    pub(super) fn new_messages(&mut self, request: &Arc<Request>, is_traced: impl Fn(&Message) -> bool) -> Value {
        let before = self.last.replace(Arc::clone(request));
        let before = before.iter().flat_map(|request| &request.messages);
        let repeated = request.messages.iter().zip(before).take_while(|(now, then)| now == then).count();
        let fresh = request.messages.iter().skip(repeated).map(|message| describe(message, is_traced(message)));
        json!({ "repeated": repeated, "messages": fresh.collect::<Vec<_>>() })
    }
}

/// Describes the ending of a run. The result of the call of a skill is in the executor's record alone, as far as its tool
/// allows.
fn describe_ending(run: &Run, ending: &Ending) -> Value {
    if run.is_skill_call() { json!({ "ending": ending.as_str() }) } else { json!(ending) }
}

fn describe(message: &Message, is_traced: bool) -> Value {
    let is_plain = message.tool_execution_id.is_none() && message.tool_calls.is_empty() && !is_traced;
    match message.role {
        Role::System | Role::User if is_plain => json!({ "role": message.role, "text": message.content }),
        _ => json!({ "role": message.role, "bytes": message_bytes(message), "execution": message.tool_execution_id }),
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::chat::ToolIntent;

    use super::*;

    #[test]
    fn records_each_message_once_without_calls() {
        fn request(messages: Vec<Message>) -> Arc<Request> {
            Arc::new(Request { messages, ..Request::default() })
        }

        let mut texts = RequestTexts::default();
        let mut messages = vec![Message::system("Be brief."), Message::user("Pay.")];
        let first = texts.new_messages(&request(messages.clone()), |_| false);
        let expected = json!([{"role": "system", "text": "Be brief."}, {"role": "user", "text": "Pay."}]);
        assert_eq!(first, json!({"repeated": 0, "messages": expected}));
        let call = ToolIntent { id: "c".to_owned(), name: "pay".to_owned(), arguments: r#"{"pin":1234}"#.to_owned() };
        let id = Some("x1".to_owned());
        messages.push(Message { tool_calls: vec![call], ..Message::assistant("") });
        messages.push(Message { tool_execution_id: id, ..Message::tool("c", "secret") });
        messages.push(Message::user("<results>secret</results>"));
        messages.push(Message::assistant("raw {\"pin\":1234}"));
        messages.push(Message::user("Reply with JSON."));
        let second = texts.new_messages(&request(messages), |message| message.content.starts_with("<results>"));
        let expected = json!([
            {"role": "assistant", "bytes": 15, "execution": null},
            {"role": "tool", "bytes": 6, "execution": "x1"},
            {"role": "user", "bytes": 25, "execution": null},
            {"role": "assistant", "bytes": 16, "execution": null},
            {"role": "user", "text": "Reply with JSON."},
        ]);
        assert_eq!(second, json!({"repeated": 2, "messages": expected}));
    }
}
