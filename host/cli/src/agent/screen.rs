//! A run as a person sees it: the answer on standard output as it is written, everything else on standard error.

use std::time::Duration;

use anyhow::Result;
use fumehood::agent::agent::AgentEvent;
use fumehood::chat::Delta;
use fumehood::record::{Record, RecordKind};
use serde_json::Value;

use super::chips::Chips;
use crate::render::paragraph::one_line;
use crate::render::{self, BAD, FAINT, record, styled};

/// Characters of a reason.
const MOST: usize = 200;

/// The screen of a run, as far as it has gone.
pub(crate) struct Screen {
    chips: Chips,
    deadline: Duration,
    /// The text that has been shown since the model was asked last.
    shown: String,
    /// Tools that ran when the run was cancelled.
    stopped: Vec<String>,
}

impl Screen {
    pub(crate) fn new(chips: Chips, deadline: Duration) -> Self {
        Self { chips, deadline, shown: String::new(), stopped: Vec::new() }
    }

    /// Something happens.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn event(&mut self, event: &AgentEvent) -> Result<()> {
        match event {
            AgentEvent::Delta { delta: Delta::Text(text), .. } => {
                self.shown.push_str(text);
                render::text(text)
            }
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
            RecordKind::ModelAsked => self.shown.clear(),
            RecordKind::ModelAnswered | RecordKind::ModelFailed => self.end_of_line()?,
            RecordKind::ToolStarted => self.chips.started(record, self.deadline),
            RecordKind::ToolPartial => self.chips.news(record),
            RecordKind::ToolFinished => {
                if record.status.as_deref() == Some("cancelled") {
                    self.stopped.extend(record.tool.clone());
                }
                self.chips.finished(record);
            }
            RecordKind::ToolRejected => self.rejected(record),
            RecordKind::Verdict => self.verdict(record),
            RecordKind::DecisionFailed => self.decision(record),
            RecordKind::SessionStarted
            | RecordKind::UserMessage
            | RecordKind::ToolResult
            | RecordKind::KnowledgeUsed
            | RecordKind::StepFinished
            | RecordKind::SessionFinished => {}
        }
        Ok(())
    }

    fn rejected(&self, record: &Record) {
        let tool = one_line(record.tool.as_deref().unwrap_or("?"));
        let message = record.body.pointer("/error/message").or_else(|| record.body.get("message"));
        let message = message.and_then(Value::as_str).map(|text| record::short(text, MOST)).unwrap_or_default();
        let status = one_line(record.status.as_deref().unwrap_or("?"));
        self.chips.quote(&format!("{} {tool} → {status}", styled(BAD, "✗")), &message);
    }

    fn verdict(&self, record: &Record) {
        let status = record.status.as_deref().unwrap_or_default();
        if matches!(status, "allow" | "ask") {
            return;
        }
        let text = |field: &str| record.body.get(field).and_then(Value::as_str).map(|text| record::short(text, MOST));
        let said = [text("by"), text("reason").or_else(|| text("note"))];
        let said = said.into_iter().flatten().collect::<Vec<_>>().join(": ");
        let tool = one_line(record.tool.as_deref().unwrap_or("?"));
        self.chips.quote(&styled(FAINT, &format!("  {tool} {status}")), &said);
    }

    fn decision(&self, record: &Record) {
        let message = record.body.get("message").and_then(Value::as_str).unwrap_or_default();
        self.chips.quote(&styled(FAINT, "  no decision"), &record::short(message, MOST));
    }

    /// The answer, if it has not been shown yet.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn answer(&mut self, text: &str) -> Result<()> {
        self.end_of_line()?;
        if text.trim().is_empty() || self.shown.trim() == text.trim() {
            return Ok(());
        }
        render::line(&fumehood::sanitize::printable(text))
    }

    /// The names of the tools that ran when the run was cancelled.
    pub(crate) fn stopped(&self) -> &[String] {
        &self.stopped
    }

    fn end_of_line(&mut self) -> Result<()> {
        if self.shown.is_empty() || self.shown.ends_with('\n') {
            return Ok(());
        }
        self.shown.push('\n');
        render::text("\n")
    }
}
