//! Tools that are Rust functions with typed arguments, and their registry. The schema of a tool comes from its type.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::content::Content;
use fumehood_core::definition::Annotations;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::gate::GateLimits;
use fumehood_core::result::{CallError, CallResult, Metadata};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::contract::{Contract, ContractError, Spec};
use super::policy::Policy;
use super::provider::{ProviderKind, ToolProvider};
use super::tool::{Invocation, Stop, Tool};

/// Errors returned by the function of a [`BuiltIn`].
#[derive(Debug, thiserror::Error)]
pub enum BuiltInError {
    /// A failure of the call, which becomes its result.
    #[error(transparent)]
    Error(#[from] CallError),
    /// The end of the whole run.
    #[error(transparent)]
    Stop(#[from] Stop),
}

impl From<String> for BuiltInError {
    fn from(message: String) -> Self {
        Self::Error(CallError::new(ErrorKind::ToolFailed, message))
    }
}

impl From<&str> for BuiltInError {
    fn from(message: &str) -> Self {
        Self::from(message.to_owned())
    }
}

type Run<A, O> = dyn Fn(A, Arc<Invocation>) -> BoxFuture<'static, Result<O, BuiltInError>> + Send + Sync;
type Authorize = dyn Fn(Option<&str>, &Invocation) -> bool + Send + Sync;

/// A Rust function as a tool. It runs in the process of the host and must not block.
pub struct BuiltIn<A, O> {
    contract: Contract,
    policy: Policy,
    needs_state: bool,
    authorize: Option<Box<Authorize>>,
    run: Box<Run<A, O>>,
    types: PhantomData<fn(A) -> O>,
}

impl<A, O> fmt::Debug for BuiltIn<A, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltIn").finish_non_exhaustive()
    }
}

impl<A, O> BuiltIn<A, O>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + Send + 'static,
{
    /// Creates a tool that runs `run`.
    ///
    /// Doc comments of `A` and its fields become descriptions, and a field with a default is optional. The model gets a
    /// string as text, and any other output as JSON.
    ///
    /// # Errors
    /// If the name or the schema of `A` is not acceptable.
    pub fn new<F, R>(name: &str, description: &str, run: F) -> Result<Self, ContractError>
    where
        F: Fn(A, Arc<Invocation>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, BuiltInError>> + Send + 'static,
    {
        let spec = Spec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: schema_of::<A>(),
            annotations: Annotations::default(),
            digest: None,
        };
        Ok(Self {
            contract: Contract::new(spec, GateLimits::default())?,
            policy: Policy::default(),
            needs_state: false,
            authorize: None,
            run: Box::new(move |arguments, invocation| Box::pin(run(arguments, invocation))),
            types: PhantomData,
        })
    }

    /// Sets the annotations: the tool's claims about its effects.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        self.contract = self.contract.with_annotations(annotations);
        self
    }

    /// Sets the tool's own policy.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Restricts calls to those for which `authorize` returns `true`. It must not block.
    #[must_use]
    pub fn with_authorize(
        mut self,
        authorize: impl Fn(Option<&str>, &Invocation) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.authorize = Some(Box::new(authorize));
        self
    }

    /// Passes the agent's state to the tool.
    #[must_use]
    pub fn with_state(mut self) -> Self {
        self.needs_state = true;
        self
    }
}

/// Generates the schema of a type, without `$schema` and the title, which would only repeat its Rust name.
fn schema_of<A: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(A).to_value();
    if let Some(keywords) = schema.as_object_mut() {
        keywords.remove("title");
        keywords.remove("$schema");
    }
    schema
}

impl<A, O> Tool for BuiltIn<A, O>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + Send + 'static,
{
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn authorize(&self, actor: Option<&str>, invocation: &Invocation) -> bool {
        self.authorize.as_ref().is_none_or(|authorize| authorize(actor, invocation))
    }

    fn accepts(&self, arguments: &Value) -> Result<(), String> {
        deserialize::<A>(arguments).map(drop)
    }

    fn needs_state(&self) -> bool {
        self.needs_state
    }

    fn policy(&self) -> Policy {
        self.policy.clone()
    }

    fn call(&self, invocation: Arc<Invocation>) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let outcome = match deserialize::<A>(&invocation.arguments) {
                Ok(arguments) => match (self.run)(arguments, Arc::clone(&invocation)).await {
                    Ok(output) => to_content(&output),
                    Err(BuiltInError::Error(error)) => Err(error),
                    Err(BuiltInError::Stop(stop)) => return Err(stop),
                },
                Err(message) => Err(CallError::new(ErrorKind::InvalidArguments, message)),
            };
            let (id, tool) = (invocation.id.clone(), invocation.tool.clone());
            Ok(CallResult { id, tool, outcome, metadata: Metadata::default() })
        })
    }
}

fn deserialize<A: DeserializeOwned>(arguments: &Value) -> Result<A, String> {
    A::deserialize(arguments).map_err(|error| error.to_string())
}

/// Converts the output of a function to content.
fn to_content<O: Serialize>(output: &O) -> Result<Vec<Content>, CallError> {
    let invalid =
        |error: serde_json::Error| CallError::new(ErrorKind::BadResult, format!("the result is not JSON: {error}"));
    Ok(vec![match serde_json::to_value(output).map_err(invalid)? {
        Value::String(text) => Content::text(text),
        value => Content::json(value.to_string()).map_err(invalid)?,
    }])
}

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
    #[error("a tool '{0}' is registered already; give it another name, or replace it on purpose with `replace`")]
    Duplicate(String),
}

/// The registry of built-in tools.
#[derive(Default)]
pub struct BuiltIns(RwLock<BTreeMap<String, Arc<dyn Tool>>>);

impl BuiltIns {
    /// Registers a function.
    ///
    /// # Errors
    /// If the name is taken: a tool that silently replaced another would be on its allowlists, too.
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
    /// Like [`BuiltIns::register`].
    pub fn register_tool(&self, tool: Arc<dyn Tool>) -> Result<(), RegisterError> {
        let name = tool.contract().name().to_owned();
        let mut tools = self.write();
        if tools.contains_key(&name) {
            return Err(RegisterError::Duplicate(name));
        }
        tools.insert(name, tool);
        Ok(())
    }

    /// Registers a tool and returns the one of the same name that it replaces.
    pub fn replace(&self, tool: Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        self.write().insert(tool.contract().name().to_owned(), tool)
    }

    /// Removes all tools.
    pub fn clear(&self) {
        self.write().clear();
    }

    // A poisoned map is consistent: every change is one operation.
    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<dyn Tool>>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<dyn Tool>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolProvider for BuiltIns {
    fn kind(&self) -> ProviderKind {
        ProviderKind::BuiltIn
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
