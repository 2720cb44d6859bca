//! Policies for calls, from options and fumehood.toml: rules, the judge, records, and the size of results that a model
//! is shown.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use fumehood::agent::guardrail::{IgnoreList, ModelJudge, Workspace};
use fumehood::agent::persistence::Persistence;
use fumehood::agent::registry::ToolPolicy;
use fumehood::chat::Model;
use fumehood::policy::{Decision, Policy, PolicyFn};
use fumehood::{CallContext, Host, ValidatedCall, is_named};

use crate::args::run::AgentArguments;
use crate::config::Config;
use crate::config::guardrail::GuardrailsSection;
use crate::config::tool::{PersistRule, ToolSection};
use crate::exit::UsageError;
use crate::source::{read_file, read_text};

/// Returns the judge of the configuration, if any. It asks `model`, unless it names another one of the same provider.
///
/// # Errors
/// If its policy cannot be read.
pub(crate) fn judge(config: &Config, model: &Arc<dyn Model>) -> Result<Option<ModelJudge>> {
    let Some(section) = &config.guardrails.judge else { return Ok(None) };
    let mut judge = ModelJudge::new(Arc::clone(model), read_text(config, &section.policy)?);
    if let Some(name) = &section.model {
        judge = judge.model_name(name.as_str());
    }
    if let Some(timeout) = section.timeout {
        judge = judge.timeout(timeout.0);
    }
    if section.may_modify {
        judge = judge.may_modify();
    }
    if section.ask_in_doubt {
        judge = judge.ask_in_doubt();
    }
    let always = section.always.iter().cloned().collect();
    let never = section.never.iter().cloned().collect();
    Ok(Some(judge.always(always).never(never)))
}

/// Collects the policies of the configuration, by the full name of each tool.
pub(crate) fn policies(config: &Config, host: &Host) -> Vec<(String, ToolPolicy)> {
    let tools = host.tools();
    let policies = tools.iter().filter_map(|tool| {
        let section = config.tools.get(tool.namespace()?.as_str())?;
        Some((tool.full_name().to_owned(), policy(section)?))
    });
    policies.collect()
}

fn policy(section: &ToolSection) -> Option<ToolPolicy> {
    let persist = match section.persist {
        PersistRule::Full => None,
        PersistRule::Nothing => Some(Persistence::Nothing),
    };
    let result_bytes = section.result_bytes.map(|bytes| bytes.0);
    let is_default = persist.is_none() && result_bytes.is_none();
    (!is_default).then(|| ToolPolicy { persist, result_bytes, ..ToolPolicy::default() })
}

/// Creates the workspace of the paths in arguments.
fn workspace(section: &GuardrailsSection) -> Workspace {
    let workspace = Workspace::new(section.workspace.clone());
    match &section.path_arguments {
        Some(names) => workspace.fields(names.clone()),
        None => workspace,
    }
}

/// Builds the rules about calls, in the order in which they are applied.
///
/// # Errors
/// If an ignore list cannot be read, or has an invalid line.
pub(crate) fn rules(config: &Config, typed: &AgentArguments) -> Result<Vec<Arc<dyn Policy>>> {
    let section = &config.guardrails;
    let mut rules: Vec<Arc<dyn Policy>> = Vec::new();
    if !section.deny.is_empty() {
        rules.push(deny_rule(section.deny.iter().cloned().collect()));
    }
    if !section.workspace.is_empty() {
        rules.push(Arc::new(workspace(section)));
    }
    let mut ignored = section.ignore.join("\n");
    if let Some(file) = &section.ignore_file {
        ignored.push('\n');
        ignored.push_str(&read_file(&config.path(file), "[guardrails] ignore_file")?);
    }
    if !ignored.trim().is_empty() {
        let list = IgnoreList::new(workspace(section), &ignored);
        rules.push(Arc::new(list.map_err(|error| UsageError(format!("[guardrails] ignore: {error}")))?));
    }
    let ask: BTreeSet<String> = typed.ask.iter().chain(&section.ask).cloned().collect();
    if !ask.is_empty() {
        rules.push(ask_rule(ask));
    }
    Ok(rules)
}

/// Builds a rule that denies every call of these tools.
fn deny_rule(tools: BTreeSet<String>) -> Arc<dyn Policy> {
    Arc::new(PolicyFn::new("deny", move |call: &ValidatedCall, _: &CallContext| match named_tool(call, &tools) {
        Some(tool) => Decision::deny(format!("calls of the tool {tool} are denied by [guardrails]")),
        None => Decision::Allow,
    }))
}

/// Builds a rule that has a person asked about each call of these tools.
fn ask_rule(tools: BTreeSet<String>) -> Arc<dyn Policy> {
    Arc::new(PolicyFn::new("ask", move |call: &ValidatedCall, _: &CallContext| match named_tool(call, &tools) {
        Some(tool) => Decision::ask(format!("may {tool} run?")),
        None => Decision::Allow,
    }))
}

/// Returns the full name of the call's tool, if a list that restricts tools names it.
fn named_tool<'a>(call: &'a ValidatedCall, tools: &BTreeSet<String>) -> Option<&'a str> {
    let tool = call.tool();
    is_named(tools, tool.full_name(), tool.alias()).then(|| tool.full_name())
}
