//! The tools that a server offers to its clients.

use std::sync::Arc;

use anyhow::Result;
use fumehood::http_api::SessionAgents;
use fumehood::listener::{TenantTools, UsageLedger};
use fumehood::policy::Policies;
use fumehood::{Host, McpTools, Source, Stack, ToolProvider};

use super::code_mode::CodeLayer;
use super::sessions::ServedSessions;
use super::settings;
use crate::agent::settings as agent_settings;
use crate::args::ServeOptions;
use crate::config::Config;
use crate::recording::Recording;
use crate::{flows, hooks};

/// The sources of tools.
#[derive(Clone)]
pub(super) struct Sources<'a> {
    pub(super) host: &'a Host,
    /// The tools of the host, with their calls at workers.
    pub(super) cell: Option<Arc<dyn ToolProvider>>,
    pub(super) remotes: Option<Arc<McpTools>>,
}

impl Sources<'_> {
    /// Returns the sources below the layers. A name that both have means the tool of the component.
    fn below_layers(&self) -> Vec<Source> {
        let components = match &self.cell {
            Some(cell) => Source::from(Arc::clone(cell)),
            None => Source::from(self.host.clone()),
        };
        let servers = self.remotes.as_ref().map(|remotes| Source::Provider(Arc::clone(remotes) as _));
        std::iter::once(components).chain(servers).collect()
    }
}

/// The tools that are offered to clients, which share the places.
pub(super) struct OfferedTools {
    /// The tools, perhaps with code mode in front of them.
    pub(super) tools: TenantTools,
    /// The same without code mode.
    pub(super) behind_code: TenantTools,
    /// The same without hooks, flows and records.
    pub(super) for_agents: TenantTools,
    pub(super) hooks: Policies,
    /// The names of the tools that can be called.
    pub(super) names: Vec<String>,
}

impl OfferedTools {
    /// Returns the agents of sessions, and their tools.
    pub(super) fn agents(
        &self,
        sessions: ServedSessions,
        host: &Host,
        recording: Option<&Recording>,
    ) -> (Arc<dyn SessionAgents>, TenantTools) {
        let tools = self.for_agents.clone();
        let log = recording.map(Recording::event_log);
        (sessions.agents(host, self.hooks.clone(), tools.clone(), log), tools)
    }
}

/// Returns the tools that are offered, behind the hooks and the policy on flows, recorded, and perhaps with code mode.
pub(super) fn offer(
    serve: &ServeOptions,
    config: &Config,
    sources: Sources<'_>,
    recording: Option<&Recording>,
    usage: UsageLedger,
) -> Result<OfferedTools> {
    let log = recording.map(|recording| recording.calls().clone());
    let host = sources.host;
    let hooks = hooks::from_config(config, host)?;
    let only = config.serve.tools.as_deref();
    let all = Stack::new().around(sources.below_layers()).tools();
    for name in only.unwrap_or_default() {
        flows::is_loaded(config, &all, name, "`tools` of [serve]", "is not served")?;
    }
    let stack = match only {
        Some(names) => Stack::new().only(names.iter().cloned()),
        None => Stack::new(),
    };
    let plain = stack.around(sources.below_layers());
    let flows = flows::policy(config, &plain.tools())?;
    let tools = stack.policies(hooks.clone()).flows(flows).log(log.clone()).around(sources.below_layers());
    let (places, max_waiting) = settings::places(serve, config);
    let behind_code = TenantTools::new(Arc::clone(&tools)).places(places, max_waiting).usage(usage);
    let behind_code = match recording {
        Some(recording) => behind_code.log(recording.budget()),
        None => behind_code,
    };
    let for_agents = behind_code.clone().around(plain);
    let code = agent_settings::code(config.serve.code, serve.code).map(|mode| CodeLayer::new(host, mode, log));
    let (all, shared) = match code {
        Some(code) => {
            let all = code.in_front_of(tools)?.tools();
            // It was set up once already, so that it can be again.
            let shared = behind_code.clone().layer(move |tools| code.in_front_of(Arc::clone(&tools)).unwrap_or(tools));
            (all, shared)
        }
        None => (tools.tools(), behind_code.clone()),
    };
    let callable = all.iter().filter(|tool| tool.is_approved());
    let names = callable.map(|tool| tool.full_name().to_owned()).collect();
    Ok(OfferedTools { tools: shared, behind_code, for_agents, hooks, names })
}
