//! The policy for flows of data, from the labels of fumehood.toml.

use std::sync::Arc;

use anyhow::Result;
use fumehood::Tool;
use fumehood::agent::memory;
use fumehood::flow::{FlowAction, FlowLabel, FlowLabels, FlowPolicy, FlowScope};

use crate::config::Config;
use crate::config::flows::{FlowActionName, FlowLabelName, FlowLabelsSection, FlowScopeName};
use crate::config::tool_names::is_loaded;

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
        .action(match section.action.unwrap_or_default() {
            FlowActionName::Ask => FlowAction::Ask,
            FlowActionName::Deny => FlowAction::Deny,
        });
    for (name, labels) in labelled {
        policy = policy.label_component(&name, labels.labels());
    }
    for (name, labels) in &section.tools {
        let place = ("[flows.tools]", "has no effect");
        if memory::TOOL_NAMES.contains(&name.as_str()) || is_loaded(config, tools, name, place)? {
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

impl FlowLabelsSection {
    fn new(source: Option<FlowLabelName>, sink: Option<FlowLabelName>) -> Self {
        Self { source, sink }
    }

    fn has_any(self) -> bool {
        self.source.is_some() || self.sink.is_some()
    }

    fn labels(self) -> FlowLabels {
        let label = |name: FlowLabelName| match name {
            FlowLabelName::Private => FlowLabel::Private,
            FlowLabelName::Public => FlowLabel::Public,
        };
        FlowLabels { source: self.source.map(label), sink: self.sink.map(label) }
    }
}
