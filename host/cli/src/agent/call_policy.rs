//! Treatment of calls: their judge, their records, and the size of results that a model is shown.

use std::sync::Arc;

use anyhow::Result;
use fumehood::Host;
use fumehood::agent::guardrail::{JudgePolicy, ModelJudge};
use fumehood::agent::persistence::Persistence;
use fumehood::agent::registry::Policy;
use fumehood::chat::Model;

use crate::config::Config;
use crate::config::tool::{PersistRule, ToolSection};
use crate::source::text;

/// The judge of the configuration, if it has one. `model` is asked unless it names another of the same provider.
///
/// # Errors
/// If its policy cannot be read.
pub(crate) fn judge(config: &Config, model: &Arc<dyn Model>) -> Result<Option<(ModelJudge, JudgePolicy)>> {
    let Some(section) = &config.guardrails.judge else { return Ok(None) };
    let mut judge = ModelJudge::new(Arc::clone(model), text(config, &section.policy)?);
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
    let names = |names: &[String]| names.iter().cloned().collect();
    Ok(Some((judge, JudgePolicy { always: names(&section.always), never: names(&section.never) })))
}

/// Collects the policies of the configuration, by the full name of each tool.
pub(crate) fn policies(config: &Config, host: &Host) -> Vec<(String, Policy)> {
    let tools = host.tools();
    let of = |tool: &str| {
        let (component, _) = tool.split_once("__")?;
        Some((tool.to_owned(), policy(config.tools.get(component)?)?))
    };
    tools.iter().filter_map(|tool| of(tool.full_name())).collect()
}

fn policy(section: &ToolSection) -> Option<Policy> {
    let persist = match section.persist {
        PersistRule::Full => None,
        PersistRule::Nothing => Some(Persistence::Nothing),
    };
    let result_bytes = section.result_bytes.map(|bytes| bytes.0);
    let is_usual = persist.is_none() && result_bytes.is_none();
    (!is_usual).then(|| Policy { persist, result_bytes, ..Policy::default() })
}
