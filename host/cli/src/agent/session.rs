//! A session of the agent: its tools, its log and its display, set up from options and fumehood.toml.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::agent::agent::Agent;
use fumehood::agent::session::SavedSession;
use fumehood::chat::ToolSpec;
use fumehood::event_log::{EventLog, Retention};
use fumehood::mcp::LogLevel;
use fumehood::record::{NullRecorder, Recorder};
use fumehood::{Host, Limits, McpTools, Tool, ToolProvider as _, is_named};

use super::agent_setup::{self, AgentSetup, AgentTools};
use super::approver::Approval;
use super::call_progress::CallProgress;
use super::interrupt::Interrupts;
use super::run_summary::RunSummary;
use super::saved::SaveMode;
use super::saved_settings::SavedSettings;
use super::screen::Screen;
use super::view::{Events, View};
use crate::app::App;
use crate::args::run::AgentArguments;
use crate::args::{Arguments, limits_over};
use crate::config::Config;
use crate::config::amount::MAX_MEMORY_BYTES;
use crate::config::price::PriceSection;
use crate::config::server::name_prefix;
use crate::config::tool_names::{self, KnownTools};
use crate::configured::Version;
use crate::exit::{Exit, UsageError};
use crate::{configured, hooks, host, list_notices, log_place, moment, render, servers, telemetry};

/// A conversation with an agent, with everything that it needs.
pub(crate) struct AgentSession {
    host: Host,
    remotes: Arc<McpTools>,
    agent: Agent,
    log: Option<Arc<EventLog>>,
    retention: Vec<Retention>,
    events: Events,
    view: View,
    interrupts: Interrupts,
    price: Option<PriceSection>,
}

impl AgentSession {
    /// Sets up a session. The model is not asked and no tool is called yet.
    ///
    /// # Errors
    /// If the model, a component, a tool that an option names, or the log is not available, or a saved session does not
    /// fit.
    pub(crate) async fn set_up(arguments: &Arguments, typed: &AgentArguments, saving: &SaveMode) -> Result<Self> {
        let app = App::open(arguments)?;
        let config = &app.config;
        telemetry::begin(config)?;
        let defaults = config.limits.over(Limits::default());
        let limits = limits_over(&typed.limits, defaults, MAX_MEMORY_BYTES)?;
        let log_place = log_place::place_for(&typed.recording, config)?;
        let key = typed.recording.log_key.as_deref();
        let options = log_place.as_ref().map(|place| log_place::options(place, key, config)).transpose()?;
        let log_place = log_place.zip(options);
        let log_files = log_place.iter().flat_map(|(place, options)| place.own_files(options)).collect();
        // Before anything is loaded: only files that are there can be kept from tools.
        let log = log_place.map(|(place, options)| log_place::open(&place, &options).map(Arc::new)).transpose()?;
        let saved = saving.read(log.as_deref(), typed)?;
        let (typed, saved_settings) = &settle(&app, typed, saved.as_ref())?;
        let mut setup = AgentSetup::read(config, typed, None)?;
        setup.set_id(saving.id().unwrap_or_default());
        let notes = agent_setup::open_notes(config)?;
        let host = load(&app, typed, limits, log_files).await?;
        let remotes = Arc::new(servers::connect(config, app.lock()?, &LogLevel::default()).await?);
        list_notices::follow(&remotes, config);
        check_tool_names(&host, &remotes, "--allow", &typed.allow)?;
        check_rule_names(&host, &remotes, config, typed)?;
        if let Some(tool) = setup.required_tool() {
            check_tool_names(&host, &remotes, "--tool-choice", &[tool.to_owned()])?;
        }
        let recorder: Arc<dyn Recorder> = log.clone().map_or_else(|| Arc::new(NullRecorder) as _, |log| log as _);
        let progress = CallProgress::new();
        let hooks = hooks::from_config(config, &host)?;
        let holds_replies = setup.is_typed();
        let mut builder = setup.builder(&host, AgentTools::Own(Arc::clone(&remotes)), recorder, hooks, notes)?;
        if let (Some(log), Some(_)) = (&log, saving.id()) {
            builder = agent_setup::set_saving(builder.saved_settings(saved_settings.to_text()?), log, saved, config);
        }
        let approval = Approval::select(arguments, typed, config, saving, &progress)?;
        let agent = approval.apply(builder, config).build()?;
        // An answer that has to match a schema is shown only once it does.
        let holds_replies = holds_replies || agent.session().config().output.is_some();
        let view = if arguments.json {
            View::Lines
        } else {
            View::Screen(Screen::new(progress, limits.deadline, holds_replies))
        };
        let interrupts = Interrupts::watch(agent.cancel_handle(), saving.interruption());
        let retention = log_place::retention(config, moment::now());
        let events = Events::subscribe(agent.tap());
        let price = config.model.price.clone();
        Ok(Self { host, remotes, events, agent, log, retention, view, interrupts, price })
    }

    /// Runs one message to its end and shows the run; more may follow.
    ///
    /// # Errors
    /// If an event cannot be recorded or shown.
    pub(crate) async fn say(&mut self, message: String) -> Result<Exit> {
        let summary = self.view.run(self.agent.iterate(message), &mut self.events, &self.interrupts).await?;
        let summary = summary.with_price(self.price.as_ref());
        self.view.show_summary(&summary)?;
        Ok(summary.exit())
    }

    /// Ends the run that was under way when a saved session was stopped, and shows it. Does nothing if there is none.
    ///
    /// # Errors
    /// If an event cannot be recorded or shown.
    pub(crate) async fn resume(&mut self) -> Result<Option<Exit>> {
        let Some(run) = self.agent.resume() else { return Ok(None) };
        let summary = self.view.run(run, &mut self.events, &self.interrupts).await?;
        let summary = summary.with_price(self.price.as_ref());
        self.view.show_summary(&summary)?;
        Ok(Some(summary.exit()))
    }

    /// Ends the run that was under way, runs the only message to its end, shows both, and ends the session.
    ///
    /// # Errors
    /// If an event cannot be recorded or shown.
    pub(crate) async fn conclude(mut self, message: Option<String>) -> Result<Exit> {
        let resumed = self.resume().await?;
        if let Some(exit @ (Exit::Waiting | Exit::Interrupted)) = resumed {
            if message.is_some() {
                render::note("the task was not started, because the interrupted run of the session has not ended");
            }
            self.end(None).await?;
            return Ok(exit);
        }
        let Some(message) = message else {
            if resumed.is_none() {
                render::note(
                    "the session has no interrupted run; give it a task, or continue with `fumehood chat --session ID`",
                );
            }
            self.end(None).await?;
            return Ok(resumed.unwrap_or(Exit::Ok));
        };
        let summary = self.view.run(self.agent.iterate(message), &mut self.events, &self.interrupts).await?;
        let summary = summary.with_price(self.price.as_ref());
        self.end(Some(&summary)).await?;
        Ok(summary.exit())
    }

    /// Returns the tools that the model may call now.
    pub(crate) fn tools(&self) -> Vec<ToolSpec> {
        self.agent.tools()
    }

    /// Starts a new session, with an empty conversation. Returns its id.
    ///
    /// # Errors
    /// If the end of the session before cannot be recorded.
    pub(crate) async fn reset(&mut self) -> Result<String> {
        self.agent.reset().await?;
        Ok(self.agent.session().config().id.clone())
    }

    /// Returns whether the session is recorded.
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
    /// If not all of it can be written.
    pub(crate) async fn close(self) -> Result<()> {
        self.end(None).await
    }

    /// Ends the session, and shows the summary of the last run after that.
    async fn end(mut self, summary: Option<&RunSummary>) -> Result<()> {
        self.interrupts.leave();
        const UNSAVED: &str = "the answer is complete, but some records are missing in the event log";
        self.agent.close().await.context(UNSAVED)?;
        self.view.drain(&mut self.events)?;
        if let Some(summary) = summary {
            self.view.show_summary(summary)?;
        }
        self.host.shutdown(Duration::ZERO).await;
        self.remotes.close().await;
        let Some(log) = self.log else { return Ok(()) };
        log.flush().await.context(UNSAVED)?;
        for keep in self.retention {
            // Old records can be removed at the end of another session; the new ones are safe.
            if let Err(error) = log.retain(keep).await {
                render::warning(&format!("old records were not removed: {error}"));
                break;
            }
        }
        Ok(())
    }
}

/// Completes what was typed with the options of the session that goes on. Returns the options to save as well.
///
/// # Errors
/// If something has to be typed again.
fn settle(
    app: &App<'_>,
    typed: &AgentArguments,
    saved: Option<&SavedSession>,
) -> Result<(AgentArguments, SavedSettings)> {
    let Some(saved) = saved else { return Ok((typed.clone(), SavedSettings::of(typed, &app.config))) };
    let settings = SavedSettings::read(saved)?;
    settings.check(typed, &app.config, app.arguments.config.is_some())?;
    Ok((settings.clone().complete(typed, Some(saved.driver())), settings))
}

/// Loads the components of the command line, with the powers of the options, and those of the configuration, with the
/// powers and limits that they have there, as far as they were approved.
async fn load(app: &App<'_>, typed: &AgentArguments, limits: Limits, log_files: Vec<PathBuf>) -> Result<Host> {
    let config = &app.config;
    let files = configured::without_configured(config, &typed.tool)?;
    let grant = typed.powers.grant_for(&files, "with `--tool FILE`")?;
    let configured = app.components(Version::Pinned).await?;
    let memories = configured.iter().map(|component| component.limits.memory);
    let memory_ceiling = memories.chain([limits.memory, Limits::default().memory]).max().unwrap_or(limits.memory);
    let builder = host::with_components(app.host_builder()?, &files);
    let builder = host::with_typed_secrets(builder, &typed.powers);
    let mut builder = host::with_typed_store(builder, config, &typed.powers, &files)?;
    if let Some(file) = &config.agent.memory {
        builder = builder.own_folder(config.path(file));
    }
    for file in log_files {
        builder = builder.own_folder(file);
    }
    let host = builder.limits(limits).memory_ceiling(memory_ceiling).build()?;
    for file in &files {
        let named = host::typed_component(config, file, typed.allow_slow_compile).await?;
        let load = named.load.grant(grant.clone());
        let load = if typed.powers.strict_imports { load.strict_imports() } else { load };
        host::load(&host, &named.label, load).await.map_err(host::with_option_hints)?;
    }
    for component in configured {
        let load = component.load.clone();
        let load = if typed.allow_slow_compile { load.allow_slow_compile() } else { load };
        host::load_configured(&host, &component, load).await?;
    }
    Ok(host)
}

/// Checks the names of tools whose calls the rules deny or ask about, which understand aliases. Those of the configuration
/// are warned of, because a tool may come later; tools of a component or a server without any now are not known.
fn check_rule_names(host: &Host, remotes: &McpTools, config: &Config, typed: &AgentArguments) -> Result<()> {
    let tools: Vec<_> = host.tools().into_iter().chain(remotes.tools()).collect();
    let unknown: Vec<String> = typed.ask.iter().filter(|name| !is_known(&tools, name)).cloned().collect();
    check_tool_names(host, remotes, "--ask", &unknown)?;
    let mut known = KnownTools::of_host(config);
    known.extend(tools.iter().map(AsRef::as_ref));
    let has_tools = |name: &str| tools.iter().any(|tool| tool.namespace().is_some_and(|own| own.as_str() == name));
    for name in config.tools.keys().filter(|name| !has_tools(name)) {
        known.add_unknown(name);
    }
    for (name, section) in config.mcp.servers.iter().filter(|(name, _)| !has_tools(name)) {
        known.add_server(name, name_prefix(section).and_then(Result::ok).as_ref(), None);
    }
    tool_names::unknown_in_rules(config, &known).iter().for_each(|unknown| render::warning(unknown));
    Ok(())
}

/// Returns whether one of the tools has this name or alias.
fn is_known(tools: &[Arc<Tool>], name: &str) -> bool {
    let list = BTreeSet::from([name.to_owned()]);
    tools.iter().any(|tool| is_named(&list, tool.full_name(), tool.alias()))
}

/// Checks that these tools exist.
fn check_tool_names(host: &Host, remotes: &McpTools, flag: &str, names: &[String]) -> Result<()> {
    let mut unknown = names.iter().filter(|name| host.tool(name).is_none() && remotes.find(name).is_none());
    let Some(name) = unknown.next() else { return Ok(()) };
    let mut tools: Vec<String> = host.tools().iter().map(|tool| tool.full_name().to_owned()).collect();
    tools.extend(remotes.tools().iter().map(|tool| tool.full_name().to_owned()));
    let there =
        if tools.is_empty() { "none; load a component with `--tool FILE`".to_owned() } else { tools.join(", ") };
    Err(UsageError(format!("`{flag}`: unknown tool `{name}`; expected one of: {there}")).into())
}
