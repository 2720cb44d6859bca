//! An agent over the tools that were named, with its log, ready to be asked.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::agent::agent::Agent;
use fumehood::agent::allowlist::{self, Allowlists};
use fumehood::agent::batch::BatchDriver;
use fumehood::agent::native::NativeDriver;
use fumehood::agent::react::ReactDriver;
use fumehood::agent::registry::ToolFamily as _;
use fumehood::event_log::EventLog;
use fumehood::record::{Forget, Recorder};
use fumehood::{AssistantBuilder, Host, Limits, Remotes};

use super::ask::AtTerminal;
use super::chips::Chips;
use super::ending::Came;
use super::interrupt::Interrupts;
use super::keyboard::Keyboard;
use super::screen::Screen;
use super::view::{Events, View};
use super::{model, rules, settings};
use crate::args::run::{AgentArguments, DriverName};
use crate::args::{Arguments, bad_limit};
use crate::config::Config;
use crate::exit::{Exit, UsageError};
use crate::{configured, host, log_file, servers};

/// The largest memory that `--memory` may ask for.
const MEMORY_CEILING: usize = 4 << 30;

/// Everything that a conversation takes.
pub(crate) struct Desk {
    host: Host,
    remotes: Arc<Remotes>,
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
        let config = Config::find(arguments.config.as_deref())?;
        let usual = config.limits.over(Limits::default());
        let limits = typed.limits.over(usual, MEMORY_CEILING).map_err(|error| bad_limit(&error))?;
        let model = model::of(&typed.model, settings::provider(&config)?, config.model.name.as_deref())?;
        let skill = settings::skill(&config, typed)?;
        let session = settings::session(&config, typed, skill)?;
        let rules = rules::of(&config, typed)?;
        let knowledge = settings::knowledge(&config)?;
        let modes = settings::modes(&config);
        let host = load(arguments, typed, &config, limits).await?;
        let remotes = Arc::new(servers::connect(&config, &configured::lock(&config)?).await?);
        known(&host, &remotes, "--only", &typed.only)?;
        known(&host, &remotes, "--ask", &typed.ask)?;
        let log = open_log(typed, &config)?;
        let recorder: Arc<dyn Recorder> = log.clone().map_or_else(|| Arc::new(Forget) as _, |log| log as _);
        let chips = Chips::new();
        let driver = settings::driver(&config, typed.driver);
        let mut builder = driven(host.agent(model), driver)
            .with_recorder(recorder)
            .with_built_ins(Arc::new(knowledge))
            .with_config(session)
            .allowlists(allowlists(&config, typed))
            .with_durability(modes.durability)
            .with_family(Arc::clone(&remotes) as _)
            .pipeline(move |pipeline| {
                rules.into_iter().fold(pipeline.modes(modes), |pipeline, rule| pipeline.rule(rule))
            });
        if let Some(skill) = skill {
            builder = builder.use_skill(skill);
        }
        if let Some(actor) = &typed.actor {
            builder = builder.with_actor(actor.as_str());
        }
        if let Some(human) = AtTerminal::find(keyboard, chips.clone()).filter(|_| !arguments.json) {
            builder = builder.with_human(Arc::new(human));
        }
        let agent = builder.build()?;
        let streams = driver != DriverName::React;
        let view =
            if arguments.json { View::Lines } else { View::Screen(Screen::new(chips, limits.deadline, streams)) };
        let interrupts = Interrupts::watch(agent.cancel_handle());
        Ok(Self { host, remotes, events: Events::of(agent.tap()), agent, log, view, interrupts })
    }

    /// Takes one message to its ending, watched; more may follow.
    ///
    /// # Errors
    /// If what happens cannot be recorded, or not be shown.
    pub(crate) async fn say(&mut self, message: String) -> Result<Exit> {
        let came = self.view.run(&mut self.agent, &mut self.events, &self.interrupts, message).await?;
        self.view.told(&came)?;
        Ok(came.exit())
    }

    /// Takes the only message to its ending, watched, and ends the session.
    ///
    /// # Errors
    /// If what happens cannot be recorded, or not be shown.
    pub(crate) async fn conclude(mut self, message: String) -> Result<Exit> {
        let came = self.view.run(&mut self.agent, &mut self.events, &self.interrupts, message).await?;
        self.end(Some(&came)).await?;
        Ok(came.exit())
    }

    /// Waits until Ctrl-C is pressed while nothing is under way.
    pub(crate) async fn idle_interrupt(&self) {
        self.interrupts.idle().await;
    }

    /// Ends the session, and waits until all of it is on disk.
    ///
    /// # Errors
    /// If that cannot be.
    pub(crate) async fn close(self) -> Result<()> {
        self.end(None).await
    }

    /// What the last run came to is said last.
    async fn end(mut self, came: Option<&Came>) -> Result<()> {
        const UNSAVED: &str = "the answer is complete, but not all of what happened is in the event log";
        self.agent.close().await.context(UNSAVED)?;
        self.view.rest(&mut self.events)?;
        if let Some(came) = came {
            self.view.told(came)?;
        }
        self.host.shut_down(Duration::ZERO).await;
        self.remotes.close().await;
        match self.log {
            Some(log) => log.flush().await.context(UNSAVED),
            None => Ok(()),
        }
    }
}

/// Loads what was named on the command line, without any power, and what the configuration names, with the powers and
/// limits that it has there, as far as that was approved.
async fn load(arguments: &Arguments, typed: &AgentArguments, config: &Config, limits: Limits) -> Result<Host> {
    let configured = configured::all(config, &configured::lock(config)?)?;
    let memories = configured.iter().map(|component| component.limits.memory);
    let most = memories.chain([limits.memory, Limits::default().memory]).max().unwrap_or(limits.memory);
    let host = host::builder_for(arguments, config)?.limits(limits).memory_ceiling(most).build()?;
    for file in &typed.tool {
        let (load, _) = host::load_of(file, typed.allow_slow_compile);
        host::load(&host, &host::file_name(file), load).await?;
    }
    for component in configured {
        let load = if typed.allow_slow_compile { component.load.allow_slow_compile() } else { component.load };
        host::load(&host, &host::file_name(&component.file), load).await?;
    }
    Ok(host)
}

/// Whoever sits at the terminal named these tools, so that the model may call all of them, unless it is told which.
fn allowlists(config: &Config, typed: &AgentArguments) -> Allowlists {
    let default = if typed.only.is_empty() {
        allowlist::Default::Everything
    } else {
        allowlist::Default::Only(typed.only.iter().chain(&config.agent.auto_tools).cloned().collect())
    };
    let auto_tools = config.agent.auto_tools.iter().cloned().collect();
    Allowlists { default, skills: settings::skills(config), auto_tools, ..Allowlists::default() }
}

/// Whether there are tools of these names.
fn known(host: &Host, remotes: &Remotes, flag: &str, names: &[String]) -> Result<()> {
    let is_known = |name: &&String| host.tool(name).is_some() || remotes.find(name).is_some();
    let Some(name) = names.iter().find(|name| !is_known(name)) else { return Ok(()) };
    let mut tools: Vec<String> = host.tools().iter().map(|tool| tool.full_name().to_owned()).collect();
    tools.extend(remotes.tools().iter().map(|tool| tool.contract().name().to_owned()));
    let there = if tools.is_empty() { "none; load some with `--tool FILE`".to_owned() } else { tools.join(", ") };
    Err(UsageError(format!("`{flag}`: there is no tool `{name}`; there are: {there}")).into())
}

fn open_log(typed: &AgentArguments, config: &Config) -> Result<Option<Arc<EventLog>>> {
    if typed.no_log || (config.log.off && typed.log.is_none()) {
        return Ok(None);
    }
    let path = log_file::place(typed.log.as_deref(), config)?;
    Ok(Some(Arc::new(log_file::write(&path, &log_file::options(config)?)?)))
}

fn driven(builder: AssistantBuilder, driver: DriverName) -> AssistantBuilder {
    match driver {
        DriverName::Native => builder.with_driver(NativeDriver::default()),
        DriverName::React => builder.with_driver(ReactDriver::default()),
        DriverName::Batch => builder.with_driver(BatchDriver::new()),
    }
}
