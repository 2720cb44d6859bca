//! The agent of a configuration and of options: what `run`, `chat` and the sessions of `serve` have in common.

use std::sync::Arc;

use anyhow::Result;
use fumehood::agent::memory::Memory;
use fumehood::agent::pipeline::Modes;
use fumehood::agent::registry::BuiltIns;
use fumehood::agent::session::{SavedSession, SessionConfig};
use fumehood::chat::Model;
use fumehood::event_log::EventLog;
use fumehood::key_value::DiskStore;
use fumehood::policy::{Policies, Policy};
use fumehood::record::Recorder;
use fumehood::{AgentBuilder, Host, McpTools, StoredNotes, Tool, ToolProvider};

use super::protocol::Protocol;
use super::{access, call_policy, model, settings};
use crate::args::run::AgentArguments;
use crate::config::Config;
use crate::source::parse_state;
use crate::{flows, servers};

/// Maximum size of the images in one result that a model is shown, in bytes.
const MAX_IMAGE_BYTES: usize = 1 << 20;

/// The tools of an agent, besides knowledge.
pub(crate) enum AgentTools {
    /// Those of the host, and of these servers.
    Own(Arc<McpTools>),
    /// Those of a tenant of a server.
    Served {
        /// The tools that exist for the tenant.
        tools: Arc<dyn ToolProvider>,
        /// The tools of all tenants, which labels of flows are about.
        all: Vec<Arc<Tool>>,
    },
}

/// Everything about an agent that can be read before its tools are loaded.
pub(crate) struct AgentSetup<'a> {
    config: &'a Config,
    typed: &'a AgentArguments,
    skill: Option<&'a str>,
    channel: Option<&'a str>,
    model: Arc<dyn Model>,
    session: SessionConfig,
    rules: Vec<Arc<dyn Policy>>,
    knowledge: BuiltIns,
    state: Option<Arc<str>>,
    modes: Modes,
    protocol: Protocol,
}

impl<'a> AgentSetup<'a> {
    /// Reads the configuration and the options. `model` takes the place of the one that they name.
    ///
    /// # Errors
    /// If something that they name is not there, or cannot be read.
    pub(crate) fn read(config: &'a Config, typed: &'a AgentArguments, model: Option<Arc<dyn Model>>) -> Result<Self> {
        let skill = access::skill(config, typed)?;
        let model = model.map_or_else(|| model::for_skill(&typed.model, config, skill), Ok)?;
        let channel = access::channel(config, typed, skill)?;
        let session = settings::session(config, typed, skill)?;
        let rules = call_policy::rules(config, typed)?;
        let knowledge = settings::knowledge(config, skill, channel)?;
        let state = typed.state.as_deref().map(parse_state).transpose()?;
        let modes = settings::modes(config, typed);
        let protocol = Protocol::read(config, typed)?;
        call_policy::judge(config, &model)?;
        Ok(Self { config, typed, skill, channel, model, session, rules, knowledge, state, modes, protocol })
    }

    /// Sets the id of the session.
    pub(crate) fn set_id(&mut self, id: &str) {
        self.session.id = id.to_owned();
    }

    pub(crate) fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// Returns the tool that the model must call, if it is a certain one and not an entry of knowledge.
    pub(crate) fn required_tool(&self) -> Option<&str> {
        self.protocol.required_tool().filter(|tool| !self.config.knowledge.contains_key(*tool))
    }

    /// Returns whether the skill in use has a schema for its result.
    pub(crate) fn is_typed(&self) -> bool {
        settings::typed_skill(self.config, self.skill).is_some()
    }

    /// Returns the builder of the agent, which still needs its approver, and perhaps the saving of its session.
    ///
    /// # Errors
    /// If a label of flows, a list of tools or the judge is not as it should be.
    pub(crate) fn builder(
        self,
        host: &Host,
        tools: AgentTools,
        recorder: Arc<dyn Recorder>,
        hooks: Policies,
        notes: Option<Arc<dyn Memory>>,
    ) -> Result<AgentBuilder> {
        let Self { config, typed, skill, channel, model, session, rules, knowledge, state, modes, protocol } = self;
        let judge = call_policy::judge(config, &model)?;
        let policies = call_policy::policies(config, host);
        let repairs = config.arguments.repairs();
        let builder = host.agent(model);
        let (builder, mut all) = match tools {
            AgentTools::Own(remotes) => {
                let all = host.tools().into_iter().chain(remotes.tools()).collect();
                (builder.provider(remotes), all)
            }
            AgentTools::Served { tools, all } => (builder.tools(tools), all),
        };
        all.extend(knowledge.tools());
        let builder = set_listed_tools(protocol.apply(set_flows(builder, config, &all)?), typed, config);
        let mut builder = builder
            .recorder(recorder)
            .built_ins(Arc::new(knowledge))
            .config(session)
            .allowlists(access::allowlists(config, typed, skill, channel)?)
            .durability(modes.durability)
            .hooks(hooks)
            .pipeline(move |mut pipeline| {
                pipeline = pipeline.modes(modes).repairs(repairs);
                for rule in rules {
                    pipeline = pipeline.rule(rule);
                }
                for (tool, policy) in policies {
                    pipeline = pipeline.tool_policy(tool, policy);
                }
                pipeline
            });
        if let Some(judge) = judge {
            builder = builder.pipeline(move |pipeline| pipeline.judge(Arc::new(judge)));
        }
        builder = set_options(with_context(builder, typed, skill, channel), typed, config);
        if let Some(state) = state {
            builder = builder.state(state);
        }
        if let Some(notes) = notes {
            builder = builder.memory(notes);
        }
        Ok(builder)
    }
}

/// Sets what the configuration and the options say about single settings.
fn set_options(mut builder: AgentBuilder, typed: &AgentArguments, config: &Config) -> AgentBuilder {
    builder = builder.actor_arguments(servers::actor_arguments(config));
    if let Some(bytes) = config.guardrails.argument_bytes {
        builder = builder.argument_bytes(bytes.0);
    }
    if let Some(mode) = settings::code(config.agent.code, typed.code) {
        builder = builder.code(mode);
    }
    if config.model.supports_images {
        builder = builder.image_bytes(MAX_IMAGE_BYTES);
    }
    if let Some(bytes) = config.agent.context {
        builder = builder.context_bytes(bytes.0);
    }
    if config.log.texts {
        builder = builder.keep_texts();
    }
    builder
}

/// Sets the policy for flows of data between all tools, if there is one.
fn set_flows(builder: AgentBuilder, config: &Config, tools: &[Arc<Tool>]) -> Result<AgentBuilder> {
    Ok(match flows::policy(config, tools)? {
        Some(policy) => builder.flows(policy),
        None => builder,
    })
}

/// Opens the notes of the model, if it may keep any.
///
/// # Errors
/// If their file cannot be opened.
pub(crate) fn open_notes(config: &Config) -> Result<Option<Arc<dyn Memory>>> {
    let Some(file) = &config.agent.memory else { return Ok(None) };
    Ok(Some(Arc::new(StoredNotes::new(Arc::new(DiskStore::open(config.path(file))?)))))
}

/// Sets the actor, and the skill and the channel in use.
fn with_context(
    mut builder: AgentBuilder,
    typed: &AgentArguments,
    skill: Option<&str>,
    channel: Option<&str>,
) -> AgentBuilder {
    if let Some(skill) = skill {
        builder = builder.use_skill(skill);
    }
    if let Some(channel) = access::select_list(typed, skill, channel) {
        builder = builder.use_channel(channel);
    }
    match &typed.actor {
        Some(actor) => builder.actor(actor.as_str()),
        None => builder,
    }
}

/// Saves the session in the log, and goes on with the saved one.
pub(crate) fn set_saving(
    mut builder: AgentBuilder,
    log: &Arc<EventLog>,
    saved: Option<SavedSession>,
    config: &Config,
) -> AgentBuilder {
    builder = builder.save_to(Arc::clone(log) as _);
    if config.agent.repeat_interrupted {
        builder = builder.repeat_idempotent();
    }
    if let Some(saved) = saved {
        builder = builder.resume(saved);
    }
    builder
}

/// Sets the tools that the model sees from the start.
fn set_listed_tools(builder: AgentBuilder, typed: &AgentArguments, config: &Config) -> AgentBuilder {
    match settings::tool_search(config, typed.tools) {
        Some(search) => builder.tool_search(search),
        None => builder,
    }
}
