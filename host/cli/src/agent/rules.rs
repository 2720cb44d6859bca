//! Rules about calls, out of what was typed and what fumehood.toml says.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use fumehood::agent::guardrail::{IgnoreList, ProposedCall, Rule, RuleFn, Verdict, Workspace};

use crate::args::run::AgentArguments;
use crate::config::Config;
use crate::exit::UsageError;
use crate::source;

/// All of them, in the order in which they are asked.
///
/// # Errors
/// If an ignore list cannot be read, or has a line that is none.
pub(crate) fn of(config: &Config, typed: &AgentArguments) -> Result<Vec<Arc<dyn Rule>>> {
    let section = &config.guardrails;
    let mut rules: Vec<Arc<dyn Rule>> = Vec::new();
    if !section.deny.is_empty() {
        rules.push(denying(section.deny.iter().cloned().collect()));
    }
    let workspace = || {
        let workspace = Workspace::new(section.workspace.clone());
        match &section.path_arguments {
            Some(names) => workspace.fields(names.clone()),
            None => workspace,
        }
    };
    if !section.workspace.is_empty() {
        rules.push(Arc::new(workspace()));
    }
    let mut ignored = section.ignore.join("\n");
    if let Some(file) = &section.ignore_file {
        ignored.push('\n');
        ignored.push_str(&source::read(&config.path(file), "[guardrails] ignore_file")?);
    }
    if !ignored.trim().is_empty() {
        let list = IgnoreList::new(workspace(), &ignored);
        rules.push(Arc::new(list.map_err(|error| UsageError(format!("[guardrails] ignore: {error}")))?));
    }
    let ask: BTreeSet<String> = typed.ask.iter().chain(&section.ask).cloned().collect();
    if !ask.is_empty() {
        rules.push(asking(ask));
    }
    Ok(rules)
}

fn denying(tools: BTreeSet<String>) -> Arc<dyn Rule> {
    Arc::new(RuleFn::new("deny", move |proposed: &ProposedCall| match tools.contains(&proposed.tool) {
        true => Verdict::Deny { reason: format!("the tool {} is never called here", proposed.tool) },
        false => Verdict::Allow,
    }))
}

/// A rule that wants a person asked about each call of these tools.
fn asking(tools: BTreeSet<String>) -> Arc<dyn Rule> {
    Arc::new(RuleFn::new("ask", move |proposed: &ProposedCall| match tools.contains(&proposed.tool) {
        true => Verdict::Ask { question: format!("may {} run?", proposed.tool) },
        false => Verdict::Allow,
    }))
}
