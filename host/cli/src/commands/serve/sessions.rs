//! Sessions of the HTTP API: agents as `fumehood chat` has them, with the tools of a tenant; saved where there is an event log.

use std::sync::Arc;

use anyhow::Result;
use fumehood::agent::agent::Agent;
use fumehood::agent::memory::Memory;
use fumehood::agent::session::SavedSession;
use fumehood::chat::Model;
use fumehood::event_log::EventLog;
use fumehood::http_api::SessionAgents;
use fumehood::listener::TenantTools;
use fumehood::policy::Policies;
use fumehood::record::{NullRecorder, Recorder};
use fumehood::{AgentParts, Host, SavedAgents, ServedAgents};

use crate::agent::agent_setup::{self, AgentSetup, AgentTools};
use crate::agent::approver::Approval;
use crate::agent::saved_settings::SavedSettings;
use crate::args::run::AgentArguments;
use crate::config::Config;

/// The parts of all agents that are made once.
pub(crate) struct ServedSessions {
    config: Config,
    model: Arc<dyn Model>,
    notes: Option<Arc<dyn Memory>>,
}

/// The source of the agents, each of which is made from the configuration.
struct AgentSource {
    parts: ServedSessions,
    host: Host,
    tools: TenantTools,
    hooks: Policies,
    log: Option<Arc<EventLog>>,
}

impl ServedSessions {
    /// Reads the settings of sessions; `None` if the configuration names no model. Faults are reported at the start, and
    /// not to the first client.
    ///
    /// # Errors
    /// If an agent cannot be set up.
    pub(crate) fn read(config: &Config) -> Result<Option<Self>> {
        if config.model.name.is_none() {
            return Ok(None);
        }
        let typed = AgentArguments::default();
        let model = Arc::clone(AgentSetup::read(config, &typed, None)?.model());
        Ok(Some(Self { config: config.clone(), model, notes: agent_setup::open_notes(config)? }))
    }

    /// Returns the agents of sessions with these tools, which neither record calls nor check them against hooks or flows: the
    /// agents do that.
    pub(crate) fn agents(
        self,
        host: &Host,
        hooks: Policies,
        tools: TenantTools,
        log: Option<&Arc<EventLog>>,
    ) -> Arc<dyn SessionAgents> {
        let source = AgentSource { parts: self, host: host.clone(), tools, hooks, log: log.cloned() };
        let make = move |parts: AgentParts| source.make(parts).map_err(|error| format!("{error:#}"));
        match log {
            Some(log) => Arc::new(SavedAgents::new(Arc::clone(log), tenant_of, make)),
            None => Arc::new(ServedAgents::new(make)),
        }
    }
}

/// Returns the tenant that a saved session belongs to; `None` for sessions of `run` and `chat`.
fn tenant_of(saved: &SavedSession) -> Option<String> {
    SavedSettings::read(saved).ok()?.into_tenant()
}

impl AgentSource {
    /// Makes the agent of a session, by the same code as `fumehood chat`.
    fn make(&self, parts: AgentParts) -> Result<Agent> {
        let AgentParts { id, tenant, actor, tools, approver, saved, .. } = parts;
        let config = &self.parts.config;
        let typed = AgentArguments { actor: actor.as_deref().map(str::to_owned), ..AgentArguments::default() };
        let (typed, settings) = match &saved {
            Some(saved) => {
                let settings = SavedSettings::read(saved)?;
                (settings.clone().complete(&typed, Some(saved.driver())), settings)
            }
            None => {
                let settings = SavedSettings::of(&typed, config).of_tenant(&tenant);
                (typed, settings)
            }
        };
        let mut setup = AgentSetup::read(config, &typed, Some(Arc::clone(&self.parts.model)))?;
        setup.set_id(&id);
        let recorder: Arc<dyn Recorder> = match &self.log {
            Some(log) => Arc::clone(log) as _,
            None => Arc::new(NullRecorder),
        };
        let served = AgentTools::Served { tools, all: self.tools.all().tools() };
        let notes = self.parts.notes.clone();
        let mut builder = setup.builder(&self.host, served, recorder, self.hooks.clone(), notes)?;
        if let Some(log) = &self.log {
            builder = agent_setup::set_saving(builder.saved_settings(settings.to_text()?), log, saved, config);
        }
        let approval = approver.map_or_else(|| Approval::unattended(config, true), Approval::Asked);
        Ok(approval.apply(builder, config).build()?)
    }
}
