//! The registries, the order in which they are asked, and that of the built-in functions.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::built_in::BuiltIn;
use super::tool::Tool;

/// Where a tool runs. Registries are asked in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// In the host's own process.
    BuiltIn,
    /// In a sandbox.
    Component,
    /// In the process of an MCP server.
    Mcp,
}

impl Family {
    /// The name that records have.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built_in",
            Self::Component => "component",
            Self::Mcp => "mcp",
        }
    }
}

/// One registry. It may change while calls run; a call keeps the tool that it found.
pub trait ToolFamily: Send + Sync {
    /// Where its tools run.
    fn family(&self) -> Family;

    /// Its tools, in the order in which a model is shown them.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;

    /// The tool of this full name.
    fn find(&self, name: &str) -> Option<Arc<dyn Tool>>;
}

/// All registries, in the order in which they are asked.
#[derive(Clone, Default)]
pub struct Registries(Vec<Arc<dyn ToolFamily>>);

impl Registries {
    /// Adds one, after those of its family that are there.
    pub fn add(&mut self, family: Arc<dyn ToolFamily>) {
        self.0.push(family);
        self.0.sort_by_key(|family| family.family());
    }

    /// The first tool of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(Family, Arc<dyn Tool>)> {
        self.0.iter().find_map(|family| Some((family.family(), family.find(name)?)))
    }

    /// Every tool that can be found, in order.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut seen = HashSet::new();
        let all = self.0.iter().flat_map(|family| family.tools());
        all.filter(|tool| seen.insert(tool.contract().name().to_owned())).collect()
    }
}

/// A built-in tool with its types, for skills to name it by.
pub struct ToolHandle<A, O> {
    name: Arc<str>,
    types: PhantomData<fn(A) -> O>,
}

impl<A, O> ToolHandle<A, O> {
    /// The full name of the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<A, O> Clone for ToolHandle<A, O> {
    fn clone(&self) -> Self {
        Self { name: Arc::clone(&self.name), types: PhantomData }
    }
}

impl<A, O> fmt::Debug for ToolHandle<A, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolHandle({})", self.name)
    }
}

/// Why a tool was not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// There is one of that name.
    #[error("a tool '{0}' is registered already; give it another name, or replace it on purpose with `replace`")]
    Duplicate(String),
}

/// The registry of built-in functions.
#[derive(Default)]
pub struct BuiltIns(RwLock<BTreeMap<String, Arc<dyn Tool>>>);

impl BuiltIns {
    /// Registers a function.
    ///
    /// # Errors
    /// If there is a tool of that name: a tool that silently takes another's place would have its allowlists too.
    pub fn register<A, O>(&self, tool: BuiltIn<A, O>) -> Result<ToolHandle<A, O>, RegisterError>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + Send + 'static,
    {
        let name = Arc::from(tool.contract().name());
        self.register_tool(Arc::new(tool))?;
        Ok(ToolHandle { name, types: PhantomData })
    }

    /// Registers any tool.
    ///
    /// # Errors
    /// As for [`BuiltIns::register`].
    pub fn register_tool(&self, tool: Arc<dyn Tool>) -> Result<(), RegisterError> {
        let name = tool.contract().name().to_owned();
        let mut tools = self.write();
        if tools.contains_key(&name) {
            return Err(RegisterError::Duplicate(name));
        }
        tools.insert(name, tool);
        Ok(())
    }

    /// Registers a tool in the place of any other of that name, which is returned.
    pub fn replace(&self, tool: Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        self.write().insert(tool.contract().name().to_owned(), tool)
    }

    /// Forgets all tools.
    pub fn clear(&self) {
        self.write().clear();
    }

    // A panic elsewhere leaves the map whole: every change is one operation.
    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<dyn Tool>>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<dyn Tool>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolFamily for BuiltIns {
    fn family(&self) -> Family {
        Family::BuiltIn
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.read().values().cloned().collect()
    }

    fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.read().get(name).cloned()
    }
}

impl fmt::Debug for BuiltIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.read().keys()).finish()
    }
}
