//! What is recorded of one call. Each record follows from the one before it.

use std::sync::Arc;

use fumehood_core::digest::Digest;
use fumehood_core::event::Progress;
use fumehood_core::record::{Record, RecordError, RecordKind, Recorder};
use serde_json::{Map, Value, json};

use super::ids::Ids;
use super::parts::Parts;
use crate::clock::Clock;
use crate::executor::Scope;
use crate::registry::{PartialSink, Partials};
use crate::truncate::clean;

/// The records of one call.
pub(super) struct Journal<'a> {
    parts: &'a Parts,
    scope: &'a Scope,
    call: String,
    model_call: String,
    tool: String,
    digest: Option<Digest>,
    last: Option<String>,
    running: bool,
    keeps: bool,
}

impl<'a> Journal<'a> {
    /// Starts the records of `call`, an id that no other call has. Models reuse `model_call`.
    pub(super) fn new(parts: &'a Parts, scope: &'a Scope, call: String, model_call: String, tool: String) -> Self {
        let last = scope.cause.clone();
        let keeps = parts.recorder.is_enabled();
        Self { parts, scope, call, model_call, tool, digest: None, last, running: false, keeps }
    }

    /// The tool was found, or another one takes its place.
    pub(super) fn about(&mut self, tool: &str, digest: Option<Digest>) {
        tool.clone_into(&mut self.tool);
        self.digest = digest;
    }

    /// The tool runs from here on, until [`RecordKind::ToolFinished`].
    pub(super) async fn started(&mut self, body: impl FnOnce() -> Value) -> Result<(), RecordError> {
        self.put(RecordKind::ToolStarted, None, body).await?;
        self.running = true;
        Ok(())
    }

    /// One record. Its body is made only if somebody keeps it.
    pub(super) async fn put(
        &mut self,
        kind: RecordKind,
        status: Option<&str>,
        body: impl FnOnce() -> Value,
    ) -> Result<(), RecordError> {
        if kind == RecordKind::ToolFinished {
            self.running = false;
        }
        if !self.keeps {
            return Ok(());
        }
        let record = self.record(kind, status, body());
        self.last = Some(record.id.clone());
        self.parts.recorder.record(record, self.parts.modes.durability).await
    }

    fn record(&self, kind: RecordKind, status: Option<&str>, body: Value) -> Record {
        Record {
            id: self.parts.ids.next("rec"),
            parent: self.last.clone(),
            session: self.scope.session.clone(),
            at: self.parts.clock.now(),
            kind,
            actor: self.scope.actor.as_deref().map(str::to_owned),
            tool: Some(self.tool.clone()),
            digest: self.digest.map(|digest| digest.to_string()),
            call: Some(self.call.clone()),
            status: status.map(str::to_owned),
            body: self.body(body),
        }
    }

    /// Where the call belongs, beside what is said of it.
    fn body(&self, said: Value) -> Value {
        let mut body = match said {
            Value::Object(body) => body,
            _ => Map::new(),
        };
        body.insert("model_call".to_owned(), Value::from(self.model_call.as_str()));
        body.insert("execution".to_owned(), Value::from(self.scope.execution.as_str()));
        body.insert("step".to_owned(), Value::from(self.scope.step));
        let mut put = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), Value::from(value));
            }
        };
        put("skill", self.scope.skill.as_deref());
        put("parent_session", self.scope.parent_session.as_deref());
        Value::Object(body)
    }

    /// Where the running call sends parts of its result. They are kept only if all of a call may be.
    pub(super) fn partials(&self, keep: bool) -> Partials {
        if !self.keeps {
            return Partials::default();
        }
        let template = self.record(RecordKind::ToolPartial, None, Value::Null);
        let Parts { recorder, clock, ids, modes, .. } = self.parts;
        let (recorder, clock, ids) = (Arc::clone(recorder), Arc::clone(clock), Arc::clone(ids));
        Partials::to(Arc::new(Sink { recorder, clock, ids, durability: modes.durability, template, keep }))
    }
}

impl Drop for Journal<'_> {
    /// Whoever waited for the call has given up. That the tool was stopped is recorded all the same.
    fn drop(&mut self) {
        if self.running && self.keeps {
            let record = self.record(RecordKind::ToolFinished, Some("cancelled"), Value::Null);
            // Taken once it is handed over; there is nobody left to wait.
            drop(self.parts.recorder.record(record, self.parts.modes.durability));
        }
    }
}

struct Sink {
    recorder: Arc<dyn Recorder>,
    clock: Arc<dyn Clock>,
    ids: Arc<Ids>,
    durability: fumehood_core::record::Durability,
    template: Record,
    keep: bool,
}

impl PartialSink for Sink {
    fn partial(&self, progress: Progress) {
        let mut record = self.template.clone();
        (record.id, record.at) = (self.ids.next("rec"), self.clock.now());
        if let Value::Object(body) = &mut record.body {
            body.insert("fraction".to_owned(), json!(progress.fraction));
            if self.keep {
                body.insert("message".to_owned(), json!(progress.message.as_deref().map(clean)));
                body.insert("partial".to_owned(), json!(progress.partial));
            }
        }
        drop(self.recorder.record(record, self.durability));
    }
}
