//! Providers of tools, and the registry that searches them in order.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::tool::Tool;

/// The place where a tool runs. Providers are searched in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProviderKind {
    /// The process of the host.
    BuiltIn,
    /// A sandbox.
    Component,
    /// The process of an MCP server.
    Mcp,
}

impl ProviderKind {
    /// Returns the name of the kind in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built_in",
            Self::Component => "component",
            Self::Mcp => "mcp",
        }
    }
}

/// A source of tools. It may change while calls run; a call keeps the tool that it found.
pub trait ToolProvider: Send + Sync {
    /// Returns the place where its tools run.
    fn kind(&self) -> ProviderKind;

    /// Returns its tools, in the order in which a model sees them.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;

    /// Finds a tool by its full name.
    fn find(&self, name: &str) -> Option<Arc<dyn Tool>>;
}

/// All providers of tools, in the order in which they are searched.
#[derive(Clone, Default)]
pub struct ToolRegistry(Vec<Arc<dyn ToolProvider>>);

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRegistry").finish_non_exhaustive()
    }
}

impl ToolRegistry {
    /// Adds a provider, after those of the same kind.
    pub fn add(&mut self, provider: Arc<dyn ToolProvider>) {
        self.0.push(provider);
        self.0.sort_by_key(|provider| provider.kind());
    }

    /// Finds the first tool of this full name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(ProviderKind, Arc<dyn Tool>)> {
        self.0.iter().find_map(|provider| Some((provider.kind(), provider.find(name)?)))
    }

    /// Returns every tool that can be found, in order: the first of each name.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut seen = HashSet::new();
        let all = self.0.iter().flat_map(|provider| provider.tools());
        all.filter(|tool| seen.insert(tool.contract().name().to_owned())).collect()
    }
}
