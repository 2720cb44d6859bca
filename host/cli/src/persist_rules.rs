//! The rules on recording arguments and results of calls.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use fumehood::QualifiedName;
use fumehood::agent::persistence::Persistence;

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
    pub(crate) fn get(&self, tool: &str) -> Persistence {
        // Also for a name that is no valid tool of the component: its arguments may be private all the same.
        let component = QualifiedName::split(tool).map_or(tool, |(component, _)| component);
        match self.0.read().unwrap_or_else(PoisonError::into_inner).get(component) {
            Some(PersistRule::Nothing) => Persistence::Nothing,
            Some(PersistRule::Full) | None => Persistence::Full,
        }
    }
}
