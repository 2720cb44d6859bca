//! A run as a person sees it: the answer on standard output, everything else on standard error.

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

/// Characters of a reason.
const MOST: usize = 200;

/// The screen of a run, as far as it has gone.
pub(crate) struct Screen {
    chips: CallProgress,
    deadline: Duration,
    reply: ReplyText,
    /// Tools that ran when the run was cancelled.
    stopped: Vec<String>,
}

impl Screen {
    pub(crate) fn new(chips: CallProgress, deadline: Duration) -> Self {
        Self { chips, deadline, reply: ReplyText::at_output(), stopped: Vec::new() }
    }

    /// Something happens.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn event(&mut self, event: &AgentEvent) -> Result<()> {
        match event {
            AgentEvent::Delta { delta: Delta::Text(text), .. } => render::text(&self.reply.push(text)),
            AgentEvent::Delta { .. } => Ok(()),
            AgentEvent::Warning { message, .. } => {
                self.end_of_line()?;
                render::warning(message);
                Ok(())
            }
            AgentEvent::Record(record) => self.record(record),
        }
    }

    fn record(&mut self, record: &Record) -> Result<()> {
        match record.kind {
            RecordKind::ModelAsked => {
                let left = self.reply.take();
                self.aside(left);
                self.reply.clear();
            }
            RecordKind::ModelAnswered => self.end_of_line()?,
            RecordKind::ModelFailed => self.broken_off(record)?,
            RecordKind::ToolStarted => {
                let said = self.reply.take_prose();
                self.aside(said);
                self.chips.started(record, self.deadline);
            }
            RecordKind::ToolPartial => self.chips.news(record),
            RecordKind::ToolFinished => {
                if record.status.as_deref() == Some("cancelled") {
                    self.stopped.extend(record.tool.clone());
                }
                self.chips.finished(record);
            }
            RecordKind::ToolRejected => {
                let said = self.reply.take_prose();
                self.aside(said);
                self.rejected(record);
            }
            RecordKind::StepFinished => self.step(record),
            RecordKind::Verdict => self.verdict(record),
            RecordKind::DecisionFailed => self.decision(record),
            RecordKind::SessionStarted
            | RecordKind::UserMessage
            | RecordKind::ToolResult
            | RecordKind::KnowledgeUsed
            | RecordKind::SessionFinished => {}
        }
        Ok(())
    }

    /// A model that was stopped had begun its answer; one that failed has not.
    fn broken_off(&mut self, record: &Record) -> Result<()> {
        if record.status.as_deref() == Some("cancelled") {
            render::text(&self.reply.show().unwrap_or_default())?;
        }
        self.end_of_line()
    }

    /// Tells the text that was held of a reply beside its calls, unless it only repeats their arguments.
    fn step(&mut self, record: &Record) {
        let text = record.body.get("text").and_then(Value::as_str);
        match record.status.as_deref() {
            Some("tool_calls") => {
                let said = self.reply.take().filter(|_| text.is_some_and(|text| !text.trim().is_empty()));
                self.aside(said);
            }
            Some("error") => {
                let said = self.reply.take();
                self.aside(said);
            }
            _ => {}
        }
    }

    /// Text that is no answer.
    fn aside(&self, text: Option<String>) {
        let text = fumehood::sanitize::printable(text.as_deref().unwrap_or_default().trim()).into_owned();
        for line in text.lines() {
            self.chips.say(&format!("{} {line}", styled(FAINT, "│")));
        }
    }

    fn rejected(&self, record: &Record) {
        let tool = one_line(record.tool.as_deref().unwrap_or("?"));
        let message = record.body.pointer("/error/message").or_else(|| record.body.get("message"));
        let message = message.and_then(Value::as_str).map(|text| record::truncate(text, MOST)).unwrap_or_default();
        let status = one_line(record.status.as_deref().unwrap_or("?"));
        self.chips.quote(&format!("{} {tool} → {status}", styled(BAD, "✗")), &message);
    }

    fn verdict(&self, record: &Record) {
        let status = record.status.as_deref().unwrap_or_default();
        if matches!(status, "allow" | "ask") {
            return;
        }
        let text =
            |field: &str| record.body.get(field).and_then(Value::as_str).map(|text| record::truncate(text, MOST));
        let said = [text("by"), text("reason").or_else(|| text("note"))];
        let said = said.into_iter().flatten().collect::<Vec<_>>().join(": ");
        let tool = one_line(record.tool.as_deref().unwrap_or("?"));
        self.chips.quote(&styled(FAINT, &format!("  {tool} {status}")), &said);
    }

    fn decision(&self, record: &Record) {
        let message = record.body.get("message").and_then(Value::as_str).unwrap_or_default();
        self.chips.quote(&styled(FAINT, "  no decision"), &record::truncate(message, MOST));
    }

    /// The answer, if it has not been shown yet.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn answer(&mut self, text: &str) -> Result<()> {
        self.end_of_line()?;
        let rest = self.reply.rest_of(text);
        if rest.is_empty() { Ok(()) } else { render::line(&fumehood::sanitize::printable(rest)) }
    }

    /// The names of the tools that ran when the run was cancelled.
    pub(crate) fn stopped(&self) -> &[String] {
        &self.stopped
    }

    fn end_of_line(&mut self) -> Result<()> {
        if self.reply.end_line() { render::text("\n") } else { Ok(()) }
    }
}
