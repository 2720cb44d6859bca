//! Records of one call. The parent of each record is the one before it.

use std::sync::Arc;

use fumehood_core::call::Observer;
use fumehood_core::call::event::Progress;
use fumehood_core::chat::ToolIntent;
use fumehood_core::digest::Digest;
use fumehood_core::record::{Durability, Record, RecordError, RecordKind, Recorder};
use serde_json::{Map, Value, json};

use super::abort::printable_name;
use super::config::{IdGenerator, PipelineConfig};
use crate::clock::Clock;
use crate::executor::Scope;
use crate::truncate::clean;

/// The records of one call. Without a recorder it holds none of their parts.
pub(super) struct Journal<'a> {
    config: &'a PipelineConfig,
    scope: &'a Scope,
    call: String,
    model_call: String,
    tool: String,
    digest: Option<Digest>,
    last: Option<String>,
    running: bool,
    is_enabled: bool,
}

impl<'a> Journal<'a> {
    /// Starts the records of a call. The id of its execution is unique; models reuse theirs.
    pub(super) fn new(config: &'a PipelineConfig, scope: &'a Scope, execution: &str, intent: &ToolIntent) -> Self {
        let last = scope.cause.clone();
        let is_enabled = config.recorder.is_enabled();
        // Without a recorder the names are not read, so they are not copied.
        let (call, model_call, tool) = if is_enabled {
            (execution.to_owned(), intent.id.clone(), printable_name(&intent.name))
        } else {
            Default::default()
        };
        Self { config, scope, call, model_call, tool, digest: None, last, running: false, is_enabled }
    }

    /// Sets the tool, once it is found or replaced by a hook.
    pub(super) fn set_tool(&mut self, tool: &str, digest: Option<Digest>) {
        if self.is_enabled {
            tool.clone_into(&mut self.tool);
            self.digest = digest;
        }
    }

    /// Returns the id of the last record.
    pub(super) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Records that the tool starts. It counts as running until [`RecordKind::ToolFinished`] is recorded.
    pub(super) async fn record_started(&mut self, body: impl FnOnce() -> Value) -> Result<(), RecordError> {
        // Set before: a call that is dropped while the log writes its record has an end as well.
        self.running = true;
        let recorded = self.record(RecordKind::ToolStarted, None, body).await;
        self.running = recorded.is_ok();
        recorded
    }

    /// Appends a record. Its body is made only if the recorder is enabled.
    pub(super) async fn record(
        &mut self,
        kind: RecordKind,
        status: Option<&str>,
        body: impl FnOnce() -> Value,
    ) -> Result<(), RecordError> {
        if kind == RecordKind::ToolFinished {
            self.running = false;
        }
        if !self.is_enabled {
            return Ok(());
        }
        let record = self.build_record(kind, status, body());
        self.last = Some(record.id.clone());
        // The log keeps the order, so that what follows a verdict waits for it as well.
        let durability = if kind == RecordKind::Verdict { Durability::Queued } else { self.config.modes.durability };
        self.config.recorder.record(record, durability).await
    }

    fn build_record(&self, kind: RecordKind, status: Option<&str>, body: Value) -> Record {
        Record {
            id: self.config.ids.next("rec"),
            parent: self.last.clone(),
            session: self.scope.session.clone(),
            at: self.config.clock.now(),
            kind,
            actor: self.scope.actor.as_deref().map(str::to_owned),
            tool: Some(self.tool.clone()),
            digest: self.digest.map(|digest| digest.to_string()),
            call: Some(self.call.clone()),
            status: status.map(str::to_owned),
            body: self.with_scope(body),
        }
    }

    /// Adds the ids of the model's call, the execution and the step, the skill and the parent session to a body.
    fn with_scope(&self, body: Value) -> Value {
        let mut body = match body {
            Value::Object(body) => body,
            _ => Map::new(),
        };
        body.insert("model_call".to_owned(), Value::from(self.model_call.as_str()));
        body.insert("execution".to_owned(), Value::from(self.scope.execution.as_str()));
        body.insert("step".to_owned(), Value::from(self.scope.step));
        if let Some(skill) = self.scope.skill.as_deref() {
            body.insert("skill".to_owned(), Value::from(skill));
        }
        if let Some(parent) = self.scope.parent_session.as_deref() {
            body.insert("parent_session".to_owned(), Value::from(parent));
        }
        Value::Object(body)
    }

    /// Creates the observer that records the progress of the running call; `None` if nothing is recorded. Content of
    /// partial results is recorded only if `is_full`.
    pub(super) fn observer(&self, is_full: bool) -> Option<Arc<dyn Observer>> {
        if !self.is_enabled {
            return None;
        }
        let template = self.build_record(RecordKind::ToolPartial, None, Value::Null);
        let PipelineConfig { recorder, clock, ids, modes, .. } = self.config;
        let recorder = Arc::clone(recorder);
        let clock = Arc::clone(clock);
        let ids = Arc::clone(ids);
        Some(Arc::new(RecordingObserver { recorder, clock, ids, durability: modes.durability, template, is_full }))
    }
}

impl Drop for Journal<'_> {
    /// Records that a running tool was stopped because the future of its call was dropped.
    fn drop(&mut self) {
        if self.running && self.is_enabled {
            let record = self.build_record(RecordKind::ToolFinished, Some("cancelled"), Value::Null);
            // The record is taken when it is handed over; no caller is left to wait for it.
            drop(self.config.recorder.record(record, self.config.modes.durability));
        }
    }
}

/// Observer that records the progress of a running call.
struct RecordingObserver {
    recorder: Arc<dyn Recorder>,
    clock: Arc<dyn Clock>,
    ids: Arc<IdGenerator>,
    durability: Durability,
    template: Record,
    is_full: bool,
}

impl Observer for RecordingObserver {
    fn progress(&self, progress: Progress) {
        let mut record = self.template.clone();
        record.id = self.ids.next("rec");
        record.at = self.clock.now();
        if let Value::Object(body) = &mut record.body {
            body.insert("fraction".to_owned(), json!(progress.fraction));
            if self.is_full {
                body.insert("message".to_owned(), json!(progress.message.as_deref().map(clean)));
                body.insert("partial".to_owned(), json!(progress.partial));
            }
        }
        drop(self.recorder.record(record, self.durability));
    }
}
