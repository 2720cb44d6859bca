//! An agent over the tools that were named, with its log, ready to be asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::agent::agent::{Agent, Tap};
use fumehood::agent::batch::BatchDriver;
use fumehood::agent::budget::Budget;
use fumehood::agent::guardrail::{Proposed, Rule, RuleFn, Verdict};
use fumehood::agent::native::NativeDriver;
use fumehood::agent::react::ReactDriver;
use fumehood::event_log::EventLog;
use fumehood::model::ProviderConfig;
use fumehood::record::{Forget, Recorder};
use fumehood::{AssistantBuilder, Host, Limits};

use super::ask::AtTerminal;
use super::chips::Chips;
use super::interrupt::Interrupts;
use super::keyboard::Keyboard;
use super::model;
use super::screen::Screen;
use super::view::{Events, View};
use crate::args::run::{AgentArguments, BudgetArguments, DriverName};
use crate::args::{Arguments, bad_limit};
use crate::exit::{Exit, UsageError};
use crate::{host, log_file};

/// The largest memory that `--memory` may ask for.
const MEMORY_CEILING: usize = 4 << 30;

/// Everything that a conversation takes.
pub(crate) struct Desk {
    host: Host,
    agent: Agent,
    log: Option<Arc<EventLog>>,
    events: Events,
    view: View,
    interrupts: Interrupts,
}

impl Desk {
    /// Sets up what was typed. Nothing is asked or called yet.
    ///
    /// # Errors
    /// If the model, a component, a name or the log is not to be had.
    pub(crate) async fn set_up(arguments: &Arguments, typed: &AgentArguments, keyboard: Arc<Keyboard>) -> Result<Self> {
        let limits = typed.limits.limits(MEMORY_CEILING).map_err(|error| bad_limit(&error))?;
        let model = model::of(&typed.model, ProviderConfig::default(), None)?;
        let host = load(arguments, typed, limits).await?;
        known(&host, "--only", &typed.only)?;
        known(&host, "--ask", &typed.ask)?;
        if let Some(skill) = &typed.skill {
            let message = format!("there is no skill `{skill}`; skills are set up in fumehood.toml");
            return Err(UsageError(message).into());
        }
        let log = open_log(typed)?;
        let recorder: Arc<dyn Recorder> = log.clone().map_or_else(|| Arc::new(Forget) as _, |log| log as _);
        let tap = Arc::new(Tap::new(recorder));
        let chips = Chips::new();
        let driver = typed.driver.unwrap_or(DriverName::Native);
        let mut builder = driven(host.agent(model), driver).with_recorder(Arc::clone(&tap) as _);
        builder = if typed.only.is_empty() { builder.allow_everything() } else { builder.allow(typed.only.clone()) };
        builder = builder.with_budget(budget(&typed.budget, Budget::default()));
        builder = builder.with_prompt(typed.system.clone().unwrap_or_default());
        if let Some(actor) = &typed.actor {
            builder = builder.with_actor(actor.as_str());
        }
        if !typed.ask.is_empty() {
            let rule = asking(typed.ask.iter().cloned().collect());
            builder = builder.pipeline(move |pipeline| pipeline.rule(rule));
        }
        if let Some(human) = AtTerminal::find(keyboard, chips.clone()).filter(|_| !arguments.json) {
            builder = builder.with_human(Arc::new(human));
        }
        let agent = builder.build()?;
        let streams = driver != DriverName::React;
        let view =
            if arguments.json { View::Lines } else { View::Screen(Screen::new(chips, limits.deadline, streams)) };
        let interrupts = Interrupts::watch(agent.cancel_handle());
        Ok(Self { host, events: Events::of(&tap), agent, log, view, interrupts })
    }

    /// Takes one message to its ending, watched.
    ///
    /// # Errors
    /// If what happens cannot be recorded, or not be shown.
    pub(crate) async fn say(&mut self, message: String) -> Result<Exit> {
        self.view.run(&mut self.agent, &mut self.events, &self.interrupts, message).await
    }

    /// Waits until Ctrl-C is pressed while nothing is under way.
    pub(crate) async fn idle_interrupt(&self) {
        self.interrupts.idle().await;
    }

    /// Ends the session, and waits until all of it is on disk.
    ///
    /// # Errors
    /// If that cannot be.
    pub(crate) async fn close(mut self) -> Result<()> {
        const UNSAVED: &str = "the answer is complete, but not all of what happened is in the event log";
        self.agent.close().await.context(UNSAVED)?;
        self.view.rest(&mut self.events)?;
        self.host.shut_down(Duration::ZERO).await;
        match self.log {
            Some(log) => log.flush().await.context(UNSAVED),
            None => Ok(()),
        }
    }
}

async fn load(arguments: &Arguments, typed: &AgentArguments, limits: Limits) -> Result<Host> {
    let host = host::builder(arguments).limits(limits).memory_ceiling(limits.memory.max(Limits::default().memory));
    let host = host.build()?;
    for file in &typed.tool {
        let (load, _) = host::load_of(file, typed.allow_slow_compile);
        host::load(&host, &host::file_name(file), load).await?;
    }
    Ok(host)
}

/// Whether there are tools of these names.
fn known(host: &Host, flag: &str, names: &[String]) -> Result<()> {
    let Some(name) = names.iter().find(|name| host.tool(name).is_none()) else { return Ok(()) };
    let tools: Vec<String> = host.tools().iter().map(|tool| tool.full_name().to_owned()).collect();
    let there = if tools.is_empty() { "none; load some with `--tool FILE`".to_owned() } else { tools.join(", ") };
    Err(UsageError(format!("`{flag}`: there is no tool `{name}`; there are: {there}")).into())
}

fn open_log(typed: &AgentArguments) -> Result<Option<Arc<EventLog>>> {
    if typed.no_log {
        return Ok(None);
    }
    let path = log_file::place(typed.log.as_deref())?;
    Ok(Some(Arc::new(log_file::write(&path)?)))
}

fn driven(builder: AssistantBuilder, driver: DriverName) -> AssistantBuilder {
    match driver {
        DriverName::Native => builder.with_driver(NativeDriver::default()),
        DriverName::React => builder.with_driver(ReactDriver::default()),
        DriverName::Batch => builder.with_driver(BatchDriver::new()),
    }
}

/// What was typed goes before what is usual.
fn budget(typed: &BudgetArguments, usual: Budget) -> Budget {
    Budget {
        turns: typed.max_turns.unwrap_or(usual.turns),
        calls: typed.max_calls.unwrap_or(usual.calls),
        // Whoever allows more calls for one message means those for the session as well.
        calls_in_all: usual.calls_in_all.map(|most| most.max(typed.max_calls.unwrap_or(0).into())),
        wall_time: typed.wall.or(usual.wall_time),
        stream_time: typed.stream_time.or(usual.stream_time),
        tokens_in: typed.tokens_in.or(usual.tokens_in),
        tokens_out: typed.tokens_out.or(usual.tokens_out),
        fuel: typed.fuel_in_all.or(usual.fuel),
    }
}

/// A rule that wants a person asked about each call of these tools.
fn asking(tools: BTreeSet<String>) -> Arc<dyn Rule> {
    Arc::new(RuleFn::new("ask", move |proposed: &Proposed| match tools.contains(&proposed.tool) {
        true => Verdict::Ask { question: format!("may {} run?", proposed.tool) },
        false => Verdict::Allow,
    }))
}
