//! The policy for flows of data, from the labels of fumehood.toml.

use std::sync::Arc;

use anyhow::Result;
use fumehood::agent::memory;
use fumehood::flow::{FlowPolicy, FlowScope};
use fumehood::{SEPARATOR, Tool};

use crate::config::Config;
use crate::config::flows::{FlowActionName, FlowLabelsSection, FlowScopeName};
use crate::config::tool_names::KnownTools;
use crate::exit::UsageError;
use crate::render;

/// Returns the policy for these tools; `None` if nothing is labelled and there is no section [flows].
///
/// # Errors
/// If a label is of a tool that is not there. One of a server that could not be used is a warning.
pub(crate) fn policy(config: &Config, tools: &[Arc<Tool>]) -> Result<Option<FlowPolicy>> {
    let labelled = labels(config);
    if labelled.is_empty() && config.flows.is_none() {
        return Ok(None);
    }
    let section = config.flows.clone().unwrap_or_default();
    let mut policy = FlowPolicy::new()
        .scope(match section.per.unwrap_or_default() {
            FlowScopeName::Session => FlowScope::Session,
            FlowScopeName::Program => FlowScope::Program,
        })
        .deny(section.action == Some(FlowActionName::Deny));
    for (name, labels) in labelled {
        policy = policy.label_component(&name, labels.labels());
    }
    for (name, labels) in &section.tools {
        if memory::TOOL_NAMES.contains(&name.as_str())
            || is_loaded(config, tools, name, "[flows.tools]", "has no effect")?
        {
            policy = policy.label_tool(name, labels.labels());
        }
    }
    Ok(Some(policy))
}

/// Returns the labels of components and of servers.
pub(crate) fn labels(config: &Config) -> Vec<(String, FlowLabelsSection)> {
    let of_components = config.tools.iter().map(|(name, tool)| (name, FlowLabelsSection::new(tool.source, tool.sink)));
    let of_servers =
        config.mcp.servers.iter().map(|(name, server)| (name, FlowLabelsSection::new(server.source, server.sink)));
    let labelled = of_components.chain(of_servers).filter(|(_, labels)| labels.has_any());
    labelled.map(|(name, labels)| (name.clone(), labels)).collect()
}

/// Returns whether one of the loaded tools has this full name, which `place` names. If the tool would be one of a server
/// that is not used, that is a warning, which ends with the `effect`.
///
/// # Errors
/// If there is no such tool.
pub(crate) fn is_loaded(
    config: &Config,
    tools: &[Arc<Tool>],
    name: &str,
    place: &str,
    effect: &str,
) -> Result<bool, UsageError> {
    if tools.iter().any(|tool| tool.full_name() == name) {
        return Ok(true);
    }
    let server = name.split_once(SEPARATOR).map(|(server, _)| server);
    if server.is_some_and(|server| config.mcp.servers.contains_key(server) && !has_tools_of(server, tools)) {
        render::warning(&format!("`{name}` in {place} {effect}, because no tool of its server is in use"));
        return Ok(false);
    }
    let mut known = KnownTools::default();
    known.extend(tools.iter().map(AsRef::as_ref));
    Err(UsageError(format!("unknown tool `{name}` in {place}; {}", known.alternatives(name))))
}

/// Returns whether some of the tools are those of this server.
fn has_tools_of(server: &str, tools: &[Arc<Tool>]) -> bool {
    tools.iter().filter_map(|tool| tool.namespace()).any(|namespace| namespace.as_str() == server)
}
