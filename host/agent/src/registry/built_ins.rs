//! The registry of built-in functions, and handles to them.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::tool::{Changes, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::built_in::{BuiltIn, BuiltInTool};

/// A registered built-in tool, by name and types. Skills list tools by handle, so that a name cannot be misspelt.
pub struct ToolHandle<A, O> {
    name: Arc<str>,
    types: PhantomData<fn(A) -> O>,
}

impl<A, O> ToolHandle<A, O> {
    /// Returns the full name of the tool.
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

/// Errors returned by [`BuiltIns::register`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// A name that another tool has.
    #[error("the tool '{0}' is already registered; rename it, or replace it with `replace`")]
    Duplicate(String),
}

/// The registry of built-in tools.
pub struct BuiltIns {
    functions: RwLock<BTreeMap<String, Arc<dyn BuiltInTool>>>,
    revision: Revision,
}

impl Default for BuiltIns {
    /// Creates a registry without tools.
    fn default() -> Self {
        Self { functions: RwLock::default(), revision: Revision::default() }
    }
}

impl BuiltIns {
    /// Registers a function.
    ///
    /// # Errors
    /// If the name is taken: a tool that silently replaced another would be on its allowlists, too.
    pub fn register<A, O>(&self, function: BuiltIn<A, O>) -> Result<ToolHandle<A, O>, RegisterError>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + Send + 'static,
    {
        let name = Arc::from(function.tool().full_name());
        self.register_tool(Arc::new(function))?;
        Ok(ToolHandle { name, types: PhantomData })
    }

    /// Registers any tool.
    ///
    /// # Errors
    /// Like [`BuiltIns::register`].
    pub fn register_tool(&self, function: Arc<dyn BuiltInTool>) -> Result<(), RegisterError> {
        let name = function.tool().full_name().to_owned();
        let mut functions = self.write();
        if functions.contains_key(&name) {
            return Err(RegisterError::Duplicate(name));
        }
        functions.insert(name, function);
        self.changed();
        Ok(())
    }

    /// Registers a tool and returns the one of the same name that it replaces.
    pub fn replace(&self, function: Arc<dyn BuiltInTool>) -> Option<Arc<dyn BuiltInTool>> {
        let replaced = self.write().insert(function.tool().full_name().to_owned(), function);
        self.changed();
        replaced
    }

    /// Removes all tools.
    pub fn clear(&self) {
        self.write().clear();
        self.changed();
    }

    /// Finds the function of a tool by its full name.
    pub(crate) fn function(&self, name: &str) -> Option<Arc<dyn BuiltInTool>> {
        self.read().get(name).cloned()
    }

    fn changed(&self) {
        self.revision.advance();
    }

    // A poisoned map is consistent: every change is one operation.
    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<dyn BuiltInTool>>> {
        self.functions.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<dyn BuiltInTool>>> {
        self.functions.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolProvider for BuiltIns {
    fn kind(&self) -> ProviderKind {
        ProviderKind::BuiltIn
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        self.read().values().map(|function| Arc::clone(function.tool())).collect()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.function(name).map(|function| Arc::clone(function.tool()))
    }

    /// Also checks that the actor may make the call.
    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let name = call.tool().full_name().to_owned();
            let id = context.id.clone();
            let refused = |error, id| CallResult { id, tool: name, outcome: Err(error), metadata: Metadata::default() };
            match self.function(call.tool().full_name()).filter(|found| Arc::ptr_eq(found.tool(), call.tool())) {
                None => Ok(refused(CallError::replaced(), id)),
                Some(function) if function.authorize(context.actor.as_deref(), &call) => {
                    function.call(call, context).await
                }
                Some(_) => Ok(refused(CallError::new(ErrorKind::Unauthorized, "not authorized to call this tool"), id)),
            }
        })
    }

    fn changes(&self) -> Changes {
        self.revision.subscribe()
    }
}

impl fmt::Debug for BuiltIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.read().keys()).finish()
    }
}
