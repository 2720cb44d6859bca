//! Display of a run: events are shown as they come, to a person or to a program.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use fumehood::agent::agent::{AgentEvent, Iteration, Outcome, Tap};
use fumehood::chat::Delta;
use fumehood::record::Record;
use serde::Serialize;
use tokio::sync::mpsc;

use super::interrupt::Interrupts;
use super::run_summary::RunSummary;
use super::screen::Screen;
use crate::render::quotation::wrap_for_stderr;
use crate::render::{self, BAD, FAINT, STRONG, styled};

/// The form in which a run is shown.
pub(crate) enum View {
    /// For a person.
    Screen(Screen),
    /// For a program: one JSON object on each line.
    Lines,
}

/// An event, for programs.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    /// Something that is also in the log.
    Record { record: &'a Record },
    /// A piece of an answer.
    Delta { session: &'a str, text: &'a str },
    /// A piece of the model's reasoning.
    Thought { session: &'a str, text: &'a str },
    /// Something that an operator should know.
    Warning { session: &'a str, message: &'a str },
}

/// The queue of events from the loop. It has no bound, so that the loop never waits for a slow terminal.
pub(crate) struct Events(mpsc::UnboundedReceiver<AgentEvent>);

impl Events {
    /// Subscribes to every event from now on.
    pub(crate) fn subscribe(tap: &Arc<Tap>) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        // A send fails once the receiver is gone, and then the events are not needed.
        tap.wiretap(move |event| drop(sender.send(event.clone())));
        Self(events)
    }
}

impl View {
    /// Carries out a run to its end.
    ///
    /// # Errors
    /// If an event cannot be recorded or shown.
    pub(crate) async fn run(
        &mut self,
        run: Iteration<'_>,
        events: &mut Events,
        interrupts: &Interrupts,
    ) -> Result<RunSummary> {
        let started = Instant::now();
        let session = run.session_id().to_owned();
        interrupts.begin();
        let ended = self.watch(run, events).await;
        interrupts.end();
        Ok(RunSummary { session, outcome: ended?, duration: started.elapsed(), cost: None })
    }

    async fn watch(&mut self, run: Iteration<'_>, events: &mut Events) -> Result<Outcome> {
        let ended = {
            let mut running = std::pin::pin!(run.finish());
            loop {
                tokio::select! {
                    biased;
                    // The run is polled first, so that a tool that reports without end cannot delay its end.
                    ended = &mut running => break ended,
                    Some(event) = events.0.recv() => self.show_event(&event)?,
                }
            }
        };
        self.drain(events)?;
        Ok(ended?)
    }

    /// Shows the events that have happened and were not shown yet.
    ///
    /// # Errors
    /// If one cannot be shown.
    pub(crate) fn drain(&mut self, events: &mut Events) -> Result<()> {
        while let Ok(event) = events.0.try_recv() {
            self.show_event(&event)?;
        }
        Ok(())
    }

    fn show_event(&mut self, event: &AgentEvent) -> Result<()> {
        let event = match self {
            Self::Screen(screen) => return screen.show_event(event),
            Self::Lines => event,
        };
        render::json_line(&match event {
            AgentEvent::Record(record) => Line::Record { record },
            AgentEvent::Delta { session, delta: Delta::Text(text) } => Line::Delta { session, text },
            AgentEvent::Delta { session, delta: Delta::Thought(text) } => Line::Thought { session, text },
            AgentEvent::Warning { session, message } => Line::Warning { session, message },
        })
    }

    /// Shows the outcome of a run.
    ///
    /// # Errors
    /// If it cannot be shown.
    pub(crate) fn show_summary(&mut self, summary: &RunSummary) -> Result<()> {
        let screen = match self {
            Self::Screen(screen) => screen,
            Self::Lines => return render::json_line(&summary.to_event()),
        };
        screen.show_answer(summary.outcome.text())?;
        if let Some(trouble) = summary.failure_message(screen.stopped()) {
            let trouble = wrap_for_stderr(&render::quotation::indent_continuations(&trouble, "  "), 7);
            render::note_lines(&format!("{} {trouble}", styled(BAD, "error:")));
        }
        for line in summary.next_steps() {
            render::note_lines(&format!("{} {}", styled(STRONG, "?"), wrap_for_stderr(&line, 2)));
        }
        render::note(&styled(FAINT, &summary.to_line()));
        Ok(())
    }
}
