//! The tools that a server offers to its clients.

use std::sync::Arc;

use anyhow::Result;
use fumehood::hooks::CallHooks;
use fumehood::http_api::SessionAgents;
use fumehood::listener::{TenantTools, UsageLedger};
use fumehood::{FlowProvider, Host, ToolProvider};

use super::code_mode::CodeLayer;
use super::served_tools::{ServedTools, Sources};
use super::sessions::ServedSessions;
use super::settings;
use crate::agent::settings as agent_settings;
use crate::args::ServeOptions;
use crate::config::Config;
use crate::recording::Recording;
use crate::{flows, hooks};

/// The tools that are offered to clients, which share the places.
pub(super) struct OfferedTools {
    /// The tools, perhaps with code mode in front of them.
    pub(super) tools: TenantTools,
    /// The same without code mode.
    pub(super) behind_code: TenantTools,
    /// The same without hooks, flows and records.
    pub(super) for_agents: TenantTools,
    pub(super) hooks: CallHooks,
    /// The number of tools that can be called.
    pub(super) count: usize,
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
    let all = ServedTools::new(sources.clone(), None, &CallHooks::default(), None).tools();
    for name in only.unwrap_or_default() {
        flows::is_loaded(config, &all, name, "`tools` of [serve]", "is not served")?;
    }
    let plain = ServedTools::new(sources.clone(), only, &CallHooks::default(), None);
    let offered = ServedTools::new(sources, only, &hooks, log.as_ref());
    let tools: Arc<dyn ToolProvider> = match flows::policy(config, &offered.tools())? {
        Some(policy) => Arc::new(FlowProvider::new(Arc::new(offered), policy).recorded(log.clone())),
        None => Arc::new(offered),
    };
    let (places, max_waiting) = settings::places(serve, config);
    let behind_code = TenantTools::new(Arc::clone(&tools)).places(places, max_waiting).usage(usage);
    let behind_code = match recording {
        Some(recording) => behind_code.log(recording.budget()),
        None => behind_code,
    };
    let for_agents = behind_code.clone().around(Arc::new(plain));
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
    let count = all.iter().filter(|tool| tool.is_approved()).count();
    Ok(OfferedTools { tools: shared, behind_code, for_agents, hooks, count })
}
