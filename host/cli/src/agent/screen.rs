//! Display of a run for a person: the answer on standard output, everything else on standard error.

use std::time::Duration;

use anyhow::Result;
use fumehood::agent::agent::AgentEvent;
use fumehood::chat::Delta;
use fumehood::record::{Record, RecordKind};
use serde_json::Value;

use super::call_progress::CallProgress;
use super::reply::ReplyText;
use crate::render::quotation::one_line;
use crate::render::{self, BAD, FAINT, record, styled};

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 200;

/// The display of a run.
pub(crate) struct Screen {
    progress: CallProgress,
    deadline: Duration,
    reply: ReplyText,
    /// Names of the tools that ran when the run was cancelled.
    stopped: Vec<String>,
}

impl Screen {
    /// Creates a display. With `holds_replies`, text of the model is not shown as it is written.
    pub(crate) fn new(progress: CallProgress, deadline: Duration, holds_replies: bool) -> Self {
        let reply = if holds_replies { ReplyText::default() } else { ReplyText::for_output_streams() };
        Self { progress, deadline, reply, stopped: Vec::new() }
    }

    /// Shows an event.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn show_event(&mut self, event: &AgentEvent) -> Result<()> {
        match event {
            AgentEvent::Delta { delta: Delta::Text(text), .. } => render::text(&self.reply.push(text)),
            AgentEvent::Delta { .. } => Ok(()),
            AgentEvent::Warning { message, .. } => {
                self.end_line()?;
                render::warning(message);
                Ok(())
            }
            AgentEvent::Record(record) => self.show_record(record),
        }
    }

    fn show_record(&mut self, record: &Record) -> Result<()> {
        match record.kind {
            RecordKind::ModelAsked => {
                let held = self.reply.take();
                self.show_aside(held);
                self.reply.clear();
            }
            RecordKind::ModelAnswered => self.end_line()?,
            RecordKind::ModelFailed => self.end_failed_reply(record)?,
            RecordKind::ToolStarted => {
                let held = self.reply.take_prose();
                self.show_aside(held);
                self.progress.add(record, self.deadline);
            }
            RecordKind::ToolPartial => self.progress.update(record),
            RecordKind::ToolFinished => {
                if record.status.as_deref() == Some("cancelled") {
                    self.stopped.extend(record.tool.clone());
                }
                self.progress.finish(record);
            }
            RecordKind::ToolRejected => {
                let held = self.reply.take_prose();
                self.show_aside(held);
                self.show_rejection(record);
            }
            RecordKind::StepFinished => self.show_step(record),
            RecordKind::Verdict => self.show_verdict(record),
            RecordKind::DecisionFailed => self.show_failed_decision(record),
            RecordKind::SessionStarted
            | RecordKind::UserMessage
            | RecordKind::ToolResult
            | RecordKind::KnowledgeUsed
            | RecordKind::SessionFinished => {}
        }
        Ok(())
    }

    /// Ends a reply that failed. A model that was cancelled had begun its answer, which is shown; one that failed had
    /// not.
    fn end_failed_reply(&mut self, record: &Record) -> Result<()> {
        if record.status.as_deref() == Some("cancelled") {
            render::text(&self.reply.show().unwrap_or_default())?;
        }
        self.end_line()
    }

    /// Shows the held text that accompanies the calls of a reply, unless it only repeats their arguments.
    fn show_step(&mut self, record: &Record) {
        let text = record.body.get("text").and_then(Value::as_str);
        match record.status.as_deref() {
            Some("tool_calls") => {
                let held = self.reply.take().filter(|_| text.is_some_and(|text| !text.trim().is_empty()));
                self.show_aside(held);
            }
            Some("error") => {
                let held = self.reply.take();
                self.show_aside(held);
            }
            _ => {}
        }
    }

    /// Shows text that is not the answer.
    fn show_aside(&self, text: Option<String>) {
        let text = fumehood::sanitize::printable(text.as_deref().unwrap_or_default().trim()).into_owned();
        for line in text.lines() {
            self.progress.print(&format!("{} {line}", styled(FAINT, "│")));
        }
    }

    fn show_rejection(&self, record: &Record) {
        let tool = one_line(record.tool.as_deref().unwrap_or("?"));
        let message = record.body.pointer("/error/message").or_else(|| record.body.get("message"));
        let message =
            message.and_then(Value::as_str).map(|text| record::truncate(text, MAX_REASON_CHARS)).unwrap_or_default();
        let status = one_line(record.status.as_deref().unwrap_or("?"));
        self.progress.print_quoted(&format!("{} {tool} → {status}", styled(BAD, "✗")), &message);
    }

    fn show_verdict(&self, record: &Record) {
        let status = record.status.as_deref().unwrap_or_default();
        if matches!(status, "allow" | "ask") {
            return;
        }
        let text = |field: &str| record.body.get(field).and_then(Value::as_str);
        let parts = [text("by"), text("reason").or_else(|| text("note"))].into_iter().flatten();
        let reason = parts.map(|text| record::truncate(text, MAX_REASON_CHARS)).collect::<Vec<_>>().join(": ");
        let tool = one_line(record.tool.as_deref().unwrap_or("?"));
        self.progress.print_quoted(&styled(FAINT, &format!("  {tool} {status}")), &reason);
    }

    fn show_failed_decision(&self, record: &Record) {
        let message = record.body.get("message").and_then(Value::as_str).unwrap_or_default();
        self.progress.print_quoted(&styled(FAINT, "  no decision"), &record::truncate(message, MAX_REASON_CHARS));
    }

    /// Shows the answer, or the part of it that has not been shown yet.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn show_answer(&mut self, text: &str) -> Result<()> {
        self.end_line()?;
        let rest = self.reply.finish(text);
        if rest.is_empty() { Ok(()) } else { render::lines(&fumehood::sanitize::printable(rest)) }
    }

    /// Returns the names of the tools that ran when the run was cancelled.
    pub(crate) fn stopped(&self) -> &[String] {
        &self.stopped
    }

    fn end_line(&mut self) -> Result<()> {
        if self.reply.end_line() { render::text("\n") } else { Ok(()) }
    }
}
