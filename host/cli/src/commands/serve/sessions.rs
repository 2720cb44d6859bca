//! Sessions of the HTTP API: an agent for each, with the model, the prompt, the rules and the limits of the configuration.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use fumehood::agent::agent::{Agent, LoopBuilder, Tap};
use fumehood::agent::allowlist::{Allowlists, DefaultAllowlist};
use fumehood::agent::batch::BatchDriver;
use fumehood::agent::executor::Scope;
use fumehood::agent::guardrail::ArgumentBytes;
use fumehood::agent::native::NativeDriver;
use fumehood::agent::pipeline::PipelineBuilder;
use fumehood::agent::react::ReactDriver;
use fumehood::agent::session::SessionConfig;
use fumehood::chat::Model;
use fumehood::record::NullRecorder;
use fumehood::{AgentParts, ServedAgents};

use crate::agent::{call_policy, model, settings};
use crate::args::run::{AgentArguments, DriverName};
use crate::config::Config;

/// Maximum size of the arguments of a call, in bytes, unless the configuration sets another.
const MAX_ARGUMENT_BYTES: usize = 1 << 20;

/// Returns the agents of sessions; `None` if the configuration names no model.
///
/// # Errors
/// If an agent cannot be set up.
pub(super) fn agents(config: &Config) -> Result<Option<ServedAgents>> {
    if config.model.name.is_none() {
        return Ok(None);
    }
    let settings = Settings::read(config)?;
    // A fault of the model is reported at the start, and not to the first client.
    settings.model()?;
    Ok(Some(ServedAgents::new(move |parts| settings.make(parts).map_err(|error| format!("{error:#}")))))
}

/// The settings of every agent.
struct Settings {
    config: Config,
    typed: AgentArguments,
    session: SessionConfig,
}

impl Settings {
    fn read(config: &Config) -> Result<Self> {
        let typed = AgentArguments::default();
        let session = settings::session(config, &typed, None)?;
        call_policy::rules(config, &typed)?;
        Ok(Self { config: config.clone(), typed, session })
    }

    fn model(&self) -> Result<Arc<dyn Model>> {
        model::from_arguments(&self.typed.model, &self.config)
    }

    /// Makes the agent of a session. Calls of its tools are recorded by the provider, so the loop keeps no records.
    fn make(&self, parts: AgentParts) -> Result<Agent> {
        let AgentParts { id, actor, tools, approver, .. } = parts;
        let model = self.model()?;
        let tap = Arc::new(Tap::new(Arc::new(NullRecorder)));
        let bytes = self.config.guardrails.argument_bytes.map_or(MAX_ARGUMENT_BYTES, |bytes| bytes.0);
        let mut pipeline = PipelineBuilder::default()
            .provider(tools)
            .allowlists(Allowlists { default: DefaultAllowlist::Everything, ..Allowlists::default() })
            .rule(Arc::new(ArgumentBytes(bytes)))
            .recorder(Arc::clone(&tap) as _)
            .modes(settings::modes(&self.config))
            .approver(Arc::clone(&approver));
        for rule in call_policy::rules(&self.config, &self.typed)? {
            pipeline = pipeline.rule(rule);
        }
        if let Some((judge, policy)) = call_policy::judge(&self.config, &model)? {
            pipeline = pipeline.judge(Arc::new(judge), policy);
        }
        let builder = Agent::builder(model);
        let builder = set_driver(builder, &self.config);
        let session = SessionConfig { id, ..self.session.clone() };
        let pipeline = pipeline.build().context("the tools cannot be offered to the model")?;
        let agent = builder
            .executor(Arc::new(pipeline))
            .config(session)
            .scope(Scope { actor, ..Scope::default() })
            .tap(tap)
            .approver(approver);
        Ok(agent.build()?)
    }
}

fn set_driver(builder: LoopBuilder, config: &Config) -> LoopBuilder {
    match settings::driver(config, None) {
        DriverName::Native => builder.driver(NativeDriver::default()),
        DriverName::React => builder.driver(ReactDriver::default().final_via_inference(config.agent.separate_answer)),
        DriverName::Batch => builder.driver(BatchDriver::new()),
    }
}
