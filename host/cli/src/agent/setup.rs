//! An agent over the tools that were named, with its log, ready to be asked.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::agent::agent::Agent;
use fumehood::agent::batch::BatchDriver;
use fumehood::agent::native::NativeDriver;
use fumehood::agent::react::ReactDriver;
use fumehood::agent::registry::ToolFamily as _;
use fumehood::chat::ToolSpec;
use fumehood::event_log::{EventLog, Keep};
use fumehood::key_value::DiskStore;
use fumehood::record::{NullRecorder, Recorder};
use fumehood::{AgentBuilder, Grant, Host, HostBuilder, Limits, McpTools, StoredNotes};

use super::ask::AtTerminal;
use super::call_progress::CallProgress;
use super::ending::RunSummary;
use super::interrupt::Interrupts;
use super::screen::Screen;
use super::view::{Events, View};
use super::{access, call_policy, model, rules, settings};
use crate::args::run::{AgentArguments, DriverName};
use crate::args::{Arguments, bad_limit};
use crate::config::Config;
use crate::exit::{Exit, UsageError};
use crate::source::state;
use crate::trust::ConfigSource;
use crate::{configured, host, log_file, moment, render, servers};

/// The largest memory that `--memory` may ask for.
const MEMORY_CEILING: usize = 4 << 30;

/// Everything that a conversation takes.
pub(crate) struct AgentSession {
    host: Host,
    remotes: Arc<McpTools>,
    agent: Agent,
    log: Option<Arc<EventLog>>,
    kept: Vec<Keep>,
    events: Events,
    view: View,
    interrupts: Interrupts,
}

impl AgentSession {
    /// Sets up what was typed. Nothing is asked or called yet.
    ///
    /// # Errors
    /// If the model, a component, a name or the log is not to be had.
    pub(crate) async fn set_up(arguments: &Arguments, typed: &AgentArguments) -> Result<Self> {
        let config = ConfigSource::from_arguments(arguments).open()?;
        let usual = config.limits.over(Limits::default());
        let limits = typed.limits.over(usual, MEMORY_CEILING).map_err(|error| bad_limit(&error))?;
        let model = model::of(&typed.model, &config)?;
        let skill = access::skill(&config, typed)?;
        let channel = access::channel(&config, typed, skill)?;
        let session = settings::session(&config, typed, skill)?;
        let rules = rules::of(&config, typed)?;
        let knowledge = settings::knowledge(&config, skill, channel)?;
        let state = typed.state.as_deref().map(state).transpose()?;
        let modes = settings::modes(&config);
        let judge = call_policy::judge(&config, &model)?;
        let place = log_file::wanted(&typed.recording, &config)?;
        // Before anything is loaded: only files that are there can be kept from tools.
        let notes = open_notes(&config)?;
        let log = place.as_deref().map(|place| open_log(place, typed, &config)).transpose()?;
        let host = load(arguments, typed, &config, limits, place.as_deref()).await?;
        let policies = call_policy::policies(&config, &host);
        let remotes = Arc::new(servers::connect(&config, &configured::lock(&config)?).await?);
        known(&host, &remotes, "--allow", &typed.allow)?;
        known(&host, &remotes, "--ask", &typed.ask)?;
        let recorder: Arc<dyn Recorder> = log.clone().map_or_else(|| Arc::new(NullRecorder) as _, |log| log as _);
        let chips = CallProgress::new();
        let driver = settings::driver(&config, typed.driver);
        let mut builder = driven(host.agent(model), driver, &config)
            .recorder(recorder)
            .built_ins(Arc::new(knowledge))
            .config(session)
            .actor_arguments(servers::actor_arguments(&config))
            .allowlists(access::allowlists(&config, typed, channel))
            .durability(modes.durability)
            .provider(Arc::clone(&remotes) as _)
            .pipeline(move |pipeline| {
                rules.into_iter().fold(pipeline.modes(modes), |pipeline, rule| pipeline.rule(rule))
            })
            .pipeline(move |pipeline| {
                policies.into_iter().fold(pipeline, |all, (tool, policy)| all.tool_policy(tool, policy))
            });
        if let Some(bytes) = config.guardrails.argument_bytes {
            builder = builder.argument_bytes(bytes.0);
        }
        if let Some((judge, policy)) = judge {
            builder = builder.pipeline(move |pipeline| pipeline.judge(Arc::new(judge), policy));
        }
        builder = in_use(builder, typed, skill, channel);
        if let Some(state) = state {
            builder = builder.state(state);
        }
        if let Some(notes) = notes {
            builder = builder.memory(Arc::new(notes));
        }
        if config.log.texts {
            builder = builder.keep_texts();
        }
        let person = AtTerminal::find(chips.clone()).filter(|_| !arguments.json);
        let agent = with_person(builder, &config, person).build()?;
        let view = if arguments.json { View::Lines } else { View::Screen(Screen::new(chips, limits.deadline)) };
        let interrupts = Interrupts::watch(agent.cancel_handle());
        let kept = log_file::kept(&config, moment::now());
        Ok(Self { host, remotes, events: Events::of(agent.tap()), agent, log, kept, view, interrupts })
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

    /// The tools that the model may call now.
    pub(crate) fn tools(&self) -> Vec<ToolSpec> {
        self.agent.tools()
    }

    /// Starts over: the model forgets what was said. Returns the name of the new session.
    ///
    /// # Errors
    /// If the end of the session before cannot be recorded.
    pub(crate) async fn reset(&mut self) -> Result<String> {
        self.agent.reset().await?;
        Ok(self.agent.session().config().id.clone())
    }

    /// Returns whether what happens is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.log.is_some()
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

    /// Ends the session, and shows the summary of the last run after that.
    async fn end(mut self, came: Option<&RunSummary>) -> Result<()> {
        self.interrupts.leave();
        const UNSAVED: &str = "the answer is complete, but not all of what happened is in the event log";
        self.agent.close().await.context(UNSAVED)?;
        self.view.rest(&mut self.events)?;
        if let Some(came) = came {
            self.view.told(came)?;
        }
        self.host.shut_down(Duration::ZERO).await;
        self.remotes.close().await;
        let Some(log) = self.log else { return Ok(()) };
        log.flush().await.context(UNSAVED)?;
        for keep in self.kept {
            // What is old can go another time; what is new is safe.
            if let Err(error) = log.retain(keep).await {
                render::warning(&format!("old records were not removed: {error}"));
                break;
            }
        }
        Ok(())
    }
}

/// Loads what was named on the command line, with the powers that were typed, and what the configuration names, with the
/// powers and limits that it has there, as far as that was approved.
async fn load(
    arguments: &Arguments,
    typed: &AgentArguments,
    config: &Config,
    limits: Limits,
    log: Option<&Path>,
) -> Result<Host> {
    let grant = powers(typed)?;
    let configured = configured::all(config, &configured::lock(config)?)?;
    let memories = configured.iter().map(|component| component.limits.memory);
    let most = memories.chain([limits.memory, Limits::default().memory]).max().unwrap_or(limits.memory);
    let builder = host::with_components(host::builder_for(arguments, config)?, &typed.tool);
    let builder = host::with_typed(builder, &typed.powers);
    let builder = match (&typed.powers.key_value_store, typed.tool.as_slice()) {
        (Some(file), _) => own_store(builder, config, file)?,
        _ if !typed.powers.needs_store() || has_store(config) => builder,
        (None, [only]) => host::with_store(builder, &host::store_of(only)?)?,
        (None, _) => {
            render::warning(
                "keys and values of several components are kept in memory, and gone at the end; \
                 `--key-value-store FILE` keeps them",
            );
            builder
        }
    };
    let memory = config.agent.memory.as_ref().map(|file| config.path(file));
    let builder = memory.into_iter().fold(builder, HostBuilder::own_folder);
    // A tool that could change the log, or read the key beside it, would be the one to say what it did.
    let files = log.into_iter().flat_map(EventLog::files).chain(typed.recording.log_key.clone());
    let builder = files.fold(builder, HostBuilder::own_folder);
    let host = builder.limits(limits).memory_ceiling(most).build()?;
    for file in &typed.tool {
        let (load, _) = host::load_of(file, typed.allow_slow_compile);
        let load = load.with_grant(grant.clone());
        let load = if typed.powers.strict_imports { load.strict_imports() } else { load };
        host::load(&host, &host::file_name(file), load).await.map_err(host::in_options)?;
    }
    for component in configured {
        let load = if typed.allow_slow_compile { component.load.allow_slow_compile() } else { component.load };
        host::load(&host, &host::file_name(&component.file), load).await?;
    }
    Ok(host)
}

/// Makes the grant of the components that were named on the command line.
fn powers(typed: &AgentArguments) -> Result<Grant> {
    if typed.tool.is_empty() && typed.powers.are_given() {
        let message = "powers are for components that are named with `--tool FILE`, and none is; those of \
                       fumehood.toml have theirs there";
        return Err(UsageError(message.to_owned()).into());
    }
    Ok(typed.powers.grant()?)
}

/// Returns whether tools of the configuration keep something, which they do in one store for all.
fn has_store(config: &Config) -> bool {
    config.tools.values().any(|tool| tool.key_value.is_some())
}

/// One host has one store.
fn own_store(builder: HostBuilder, config: &Config, file: &Path) -> Result<HostBuilder> {
    if has_store(config) {
        let place = config.origin.display();
        let message = format!(
            "`--key-value-store`: {place} has tools that keep something, and says where; leave the flag out, or the \
             configuration"
        );
        return Err(UsageError(message).into());
    }
    host::with_store(builder, file)
}

/// Checks that there are tools of these names.
fn known(host: &Host, remotes: &McpTools, flag: &str, names: &[String]) -> Result<()> {
    let is_known = |name: &&String| host.tool(name).is_some() || remotes.find(name).is_some();
    let Some(name) = names.iter().find(|name| !is_known(name)) else { return Ok(()) };
    let mut tools: Vec<String> = host.tools().iter().map(|tool| tool.full_name().to_owned()).collect();
    tools.extend(remotes.tools().iter().map(|tool| tool.contract().name().to_owned()));
    let there = if tools.is_empty() { "none; load some with `--tool FILE`".to_owned() } else { tools.join(", ") };
    Err(UsageError(format!("`{flag}`: there is no tool `{name}`; there are: {there}")).into())
}

/// The notes of the model, if it may keep any.
fn open_notes(config: &Config) -> Result<Option<StoredNotes>> {
    let Some(file) = &config.agent.memory else { return Ok(None) };
    Ok(Some(StoredNotes::new(Arc::new(DiskStore::open(config.path(file))?))))
}

fn open_log(place: &Path, typed: &AgentArguments, config: &Config) -> Result<Arc<EventLog>> {
    Ok(Arc::new(log_file::write(place, &log_file::options(typed.recording.log_key.as_deref(), config)?)?))
}

/// On whose behalf, and within what.
fn in_use(
    mut builder: AgentBuilder,
    typed: &AgentArguments,
    skill: Option<&str>,
    channel: Option<&str>,
) -> AgentBuilder {
    if let Some(skill) = skill {
        builder = builder.use_skill(skill);
    }
    if let Some(channel) = access::in_use(typed, skill, channel) {
        builder = builder.use_channel(channel);
    }
    match &typed.actor {
        Some(actor) => builder.actor(actor.as_str()),
        None => builder,
    }
}

/// Adds the person to ask about calls, and about more turns unless that is not wanted.
fn with_person(builder: AgentBuilder, config: &Config, person: Option<AtTerminal>) -> AgentBuilder {
    match person.map(Arc::new) {
        Some(person) if config.agent.ask_for_turns == Some(false) => {
            builder.pipeline(move |pipeline| pipeline.approver(person))
        }
        Some(person) => builder.approver(person),
        None => builder,
    }
}

fn driven(builder: AgentBuilder, driver: DriverName, config: &Config) -> AgentBuilder {
    match driver {
        DriverName::Native => builder.driver(NativeDriver::default()),
        DriverName::React => builder.driver(ReactDriver::default().final_via_inference(config.agent.separate_answer)),
        DriverName::Batch => builder.driver(BatchDriver::new()),
    }
}
