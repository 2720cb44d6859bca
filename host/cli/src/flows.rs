//! The policy for flows of data, from the labels of fumehood.toml.

use std::sync::Arc;

use anyhow::Result;
use fumehood::Tool;
use fumehood::flow::{FlowAction, FlowLabel, FlowLabels, FlowPolicy, FlowScope};

use crate::config::Config;
use crate::config::flows::{FlowActionName, FlowLabelName, FlowLabelsSection, FlowScopeName};
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
        .action(match section.action.unwrap_or_default() {
            FlowActionName::Ask => FlowAction::Ask,
            FlowActionName::Deny => FlowAction::Deny,
        });
    for (name, labels) in labelled {
        policy = policy.label_component(&name, labels.labels());
    }
    for (name, labels) in &section.tools {
        if is_there(config, tools, name)? {
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

/// Returns whether there is a tool of this name.
fn is_there(config: &Config, tools: &[Arc<Tool>], name: &str) -> Result<bool> {
    if tools.iter().any(|tool| tool.full_name() == name) || fumehood::agent::memory::TOOL_NAMES.contains(&name) {
        return Ok(true);
    }
    let of_server = name.split_once(fumehood::SEPARATOR).map(|(server, _)| server);
    let is_loaded = |server: &str| tools.iter().filter_map(|tool| tool.namespace()).any(|it| it.as_str() == server);
    if of_server.is_some_and(|server| config.mcp.servers.contains_key(server) && !is_loaded(server)) {
        render::warning(&format!(
            "the label of `{name}` in [flows.tools] has no effect, because its server is not used"
        ));
        return Ok(false);
    }
    let known: Vec<&str> = tools.iter().map(|tool| tool.full_name()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(UsageError(format!("unknown tool `{name}` in [flows.tools]; expected one of: {known}")).into())
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
