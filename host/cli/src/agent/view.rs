//! One run, watched: events are shown as they come, to a person or to a program.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use fumehood::agent::agent::{Agent, AgentEvent, Outcome, Tap};
use fumehood::chat::Delta;
use fumehood::record::Record;
use serde::Serialize;
use tokio::sync::mpsc;

use super::ending::RunSummary;
use super::interrupt::Interrupts;
use super::screen::Screen;
use crate::render::quotation::wrap_for_stderr;
use crate::render::{self, BAD, FAINT, styled};

/// The form in which a run is shown.
pub(crate) enum View {
    /// A person.
    Screen(Screen),
    /// A program: one JSON object on each line.
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
    /// A piece of what the model thinks.
    Thought { session: &'a str, text: &'a str },
    /// Something that an operator should know.
    Warning { session: &'a str, message: &'a str },
}

/// Events on their way from the loop to whoever looks on. The loop never waits for a slow terminal.
pub(crate) struct Events(mpsc::UnboundedReceiver<AgentEvent>);

impl Events {
    /// Every event from now on.
    pub(crate) fn of(tap: &Arc<Tap>) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        // Nobody looks on any more once the receiver is gone.
        tap.wiretap(move |event| drop(sender.send(event.clone())));
        Self(events)
    }
}

impl View {
    /// Takes one message to its ending.
    ///
    /// # Errors
    /// If what happens cannot be recorded, or not be shown.
    pub(crate) async fn run(
        &mut self,
        agent: &mut Agent,
        events: &mut Events,
        interrupts: &Interrupts,
        message: String,
    ) -> Result<RunSummary> {
        let started = Instant::now();
        let session = agent.session().config().id.clone();
        interrupts.begin();
        let ended = self.watch(agent, events, message).await;
        interrupts.end();
        Ok(RunSummary { session, outcome: ended?, took: started.elapsed() })
    }

    async fn watch(&mut self, agent: &mut Agent, events: &mut Events, message: String) -> Result<Outcome> {
        let ended = {
            let mut running = std::pin::pin!(agent.run(message));
            loop {
                tokio::select! {
                    biased;
                    // The run first: a tool that never stops talking must not be able to hold its end off.
                    ended = &mut running => break ended,
                    Some(event) = events.0.recv() => self.event(&event)?,
                }
            }
        };
        self.rest(events)?;
        Ok(ended?)
    }

    /// Shows what has happened and was not shown yet.
    ///
    /// # Errors
    /// If it cannot be shown.
    pub(crate) fn rest(&mut self, events: &mut Events) -> Result<()> {
        while let Ok(event) = events.0.try_recv() {
            self.event(&event)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &AgentEvent) -> Result<()> {
        let screen = match self {
            Self::Screen(screen) => return screen.event(event),
            Self::Lines => event,
        };
        render::json_line(&match screen {
            AgentEvent::Record(record) => Line::Record { record },
            AgentEvent::Delta { session, delta: Delta::Text(text) } => Line::Delta { session, text },
            AgentEvent::Delta { session, delta: Delta::Thought(text) } => Line::Thought { session, text },
            AgentEvent::Warning { session, message } => Line::Warning { session, message },
        })
    }

    /// Says what a run came to.
    ///
    /// # Errors
    /// If that cannot be shown.
    pub(crate) fn told(&mut self, came: &RunSummary) -> Result<()> {
        let screen = match self {
            Self::Screen(screen) => screen,
            Self::Lines => return render::json_line(&came.summary()),
        };
        screen.answer(came.outcome.text())?;
        if let Some(trouble) = came.trouble(screen.stopped()) {
            let trouble = wrap_for_stderr(&render::quotation::indent_continuations(&trouble, "  "), 7);
            render::note(&format!("{} {trouble}", styled(BAD, "error:")));
        }
        render::note(&styled(FAINT, &came.line()));
        Ok(())
    }
}
