//! The rules on recording arguments and results of calls.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use fumehood::QualifiedName;
use fumehood::agent::persistence::Persistence;
use fumehood::agent::pipeline::RELAY_TOOLS;

use crate::config::Config;
use crate::config::tool::PersistRule;

/// The rules on recording arguments and results, by component, as the configuration has them now.
#[derive(Clone, Default)]
pub(crate) struct PersistRules(Arc<RwLock<BTreeMap<String, PersistRule>>>);

impl PersistRules {
    /// Replaces the rules by those of the configuration.
    pub(crate) fn update(&self, config: &Config) {
        let rules = config.tools.iter().map(|(name, tool)| (name.to_string(), tool.persist)).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// Returns the rule for the calls of a tool, by its full name.
    ///
    /// Tools that pass on what other tools got and gave have the strictest rule of all.
    pub(crate) fn get(&self, tool: &str) -> Persistence {
        let rules = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if RELAY_TOOLS.contains(&tool) {
            let is_nothing = rules.values().any(|rule| *rule == PersistRule::Nothing);
            return if is_nothing { Persistence::Nothing } else { Persistence::Full };
        }
        // Also for a name that is no valid tool of the component: its arguments may be private all the same.
        let component = QualifiedName::split(tool).map_or(tool, |(component, _)| component);
        match rules.get(component) {
            Some(PersistRule::Nothing) => Persistence::Nothing,
            Some(PersistRule::Full) | None => Persistence::Full,
        }
    }
}
