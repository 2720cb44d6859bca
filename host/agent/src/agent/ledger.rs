//! The records of the loop itself: each has an id and names the record before it as its parent. The parent of the executor's
//! own records is the answer that asked for the calls.
//!
//! They hold neither arguments nor results of calls, nor raw replies that may hold arguments: the executor records those,
//! because it has the rules for redaction. Other texts of requests and replies are included if the host asks for them.

use std::time::Duration;

use fumehood_core::chat::{Message, Request, Response};
use fumehood_core::record::{Record, RecordKind};
use fumehood_core::time::Timestamp;
use serde_json::{Value, json};

use crate::execution::ToolExecution;
use crate::transcript::{Ending, Run, Step, StepKind};

/// Returns the size of a message in bytes: its text, and the names and arguments of its calls.
pub(super) fn bytes_of(message: &Message) -> usize {
    let calls = message.tool_calls.iter().map(|call| call.name.len().saturating_add(call.arguments.len()));
    calls.fold(message.content.len(), usize::saturating_add)
}

/// Converts a duration to milliseconds, with fractions.
fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// A factory for the records of one session.
#[derive(Debug)]
pub(super) struct Ledger {
    session: String,
    actor: Option<String>,
    count: u64,
    last: Option<String>,
}

impl Ledger {
    pub(super) fn new(session: String, actor: Option<String>) -> Self {
        Self { session, actor, count: 0, last: None }
    }

    /// Returns the id of the latest record.
    pub(super) fn last(&self) -> Option<String> {
        self.last.clone()
    }

    /// Returns whether there is no record yet.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn make(&mut self, kind: RecordKind, status: Option<&str>, at: Timestamp, body: Value) -> Record {
        self.count = self.count.saturating_add(1);
        let id = format!("{}-{}", self.session, self.count);
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

    pub(super) fn asked(
        &mut self,
        asked: &Request,
        model: Option<&str>,
        run: &str,
        turn: u32,
        at: Timestamp,
    ) -> Record {
        let body = json!({
            "run": run,
            "turn": turn,
            "model": asked.model.as_deref().or(model),
            "messages": asked.messages.len(),
            "prompt_bytes": asked.messages.iter().map(bytes_of).fold(0, usize::saturating_add),
            "tools": asked.tools.len(),
            "max_tokens": asked.max_tokens,
        });
        self.make(RecordKind::ModelAsked, None, at, body)
    }

    pub(super) fn answered(&mut self, response: &Response, took: Duration, at: Timestamp) -> Record {
        let call = |call: &fumehood_core::chat::ToolIntent| json!({ "id": call.id, "name": call.name });
        let body = json!({
            "bytes": response.reply.text().len(),
            "calls": response.reply.calls().iter().map(call).collect::<Vec<_>>(),
            "usage": { "input": response.usage.input, "output": response.usage.output },
            "stop": response.stop,
            "duration_ms": millis(took),
        });
        self.make(RecordKind::ModelAnswered, Some("ok"), at, body)
    }

    /// Creates the record of a request without an answer. `took` is the time until the failure; `body` depends on its cause.
    pub(super) fn unanswered(&mut self, status: &str, took: Duration, mut body: Value, at: Timestamp) -> Record {
        if let Value::Object(body) = &mut body {
            body.insert("duration_ms".to_owned(), millis(took).into());
        }
        self.make(RecordKind::ModelFailed, Some(status), at, body)
    }

    /// Creates the records of the steps from `from` on, and of the end of the run if it has ended.
    pub(super) fn steps(&mut self, run: &Run, from: usize, at: Timestamp) -> Vec<Record> {
        let mut records = Vec::new();
        let fresh = run.steps.get(from..).unwrap_or_default();
        for (index, step) in fresh.iter().enumerate() {
            let last = index.saturating_add(1) == fresh.len();
            let ending = run.ending.as_ref().filter(|_| last);
            match ending {
                Some(Ending::DecisionFailed { fault, message }) => {
                    let body = json!({ "step": step.number, "message": message });
                    records.push(self.make(RecordKind::DecisionFailed, Some(fault.as_str()), at, body));
                }
                _ => {
                    let own = step.own.iter().filter_map(|position| step.executions.get(*position));
                    records.extend(own.map(|execution| self.own_execution(execution, at)));
                }
            }
            records.push(self.step(run, step, ending, at));
        }
        if fresh.is_empty()
            && let Some(ending) = &run.ending
        {
            let body = json!({ "run": run.id, "ending": ending });
            records.push(self.make(RecordKind::StepFinished, Some(ending.as_str()), at, body));
        }
        records
    }

    fn step(&mut self, run: &Run, step: &Step, ending: Option<&Ending>, at: Timestamp) -> Record {
        let (status, message) = match &step.kind {
            StepKind::ToolCalls => ("tool_calls", None),
            StepKind::FinalResponse => ("final_response", None),
            StepKind::Error(message) => ("error", Some(message)),
        };
        // The text of an error may be a raw reply, and the answer is part of the ending.
        let text = (step.kind == StepKind::ToolCalls).then_some(&step.text);
        let mut body = json!({
            "run": run.id,
            "step": step.number,
            "attempts": step.attempts.len(),
            "text": text,
            "executions": step.executions.iter().map(|execution| &execution.id).collect::<Vec<_>>(),
            "usage": { "input": step.usage.input, "output": step.usage.output },
        });
        if let Value::Object(body) = &mut body {
            body.extend(message.map(|message| ("message".to_owned(), json!(message))));
            body.extend(ending.map(|ending| ("ending".to_owned(), json!(ending))));
        }
        self.make(RecordKind::StepFinished, Some(status), at, body)
    }

    /// Creates the record of a call that the session itself answered, or that was stopped while it ran.
    fn own_execution(&mut self, execution: &ToolExecution, at: Timestamp) -> Record {
        let kind = if execution.status.ran() { RecordKind::ToolFinished } else { RecordKind::ToolRejected };
        let status = execution.error().map(|error| error.kind.as_str());
        let body = json!({
            "model_call": execution.call.id,
            "status": execution.status,
            "message": execution.error_message(),
            "argument_bytes": execution.args().len(),
        });
        let parent = self.last.clone();
        let mut record = self.make(kind, status, at, body);
        // The record is a leaf: the parent of the step is the answer, not one of its calls.
        self.last = parent;
        record.tool = Some(execution.call.name.clone());
        record.call = Some(execution.id.clone());
        record
    }
}
