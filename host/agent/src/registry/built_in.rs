//! A tool that is a Rust function with typed arguments. Its schema comes from the type.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

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
use super::tool::{Invocation, Stop, Tool};

/// How a function does not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The call failed. The model is told.
    #[error(transparent)]
    Error(#[from] CallError),
    /// The whole run ends.
    #[error(transparent)]
    Stop(#[from] Stop),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Error(CallError::new(ErrorKind::ToolFailed, message))
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::from(message.to_owned())
    }
}

type Run<A, O> = dyn Fn(A, Arc<Invocation>) -> BoxFuture<'static, Result<O, Failure>> + Send + Sync;
type Authorize = dyn Fn(Option<&str>, &Invocation) -> bool + Send + Sync;

/// A Rust function as a tool. It runs in the host's own process and must not block.
pub struct BuiltIn<A, O> {
    contract: Contract,
    policy: Policy,
    wants_state: bool,
    authorize: Option<Box<Authorize>>,
    run: Box<Run<A, O>>,
    types: PhantomData<fn(A) -> O>,
}

impl<A, O> BuiltIn<A, O>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + Send + 'static,
{
    /// A tool that runs `run`. Doc comments of `A` and its fields become descriptions; a field with a default need not
    /// be given. A string is given to the model as text, anything else as JSON.
    ///
    /// # Errors
    /// If the name or the schema of `A` is not acceptable.
    pub fn new<F, R>(name: &str, description: &str, run: F) -> Result<Self, ContractError>
    where
        F: Fn(A, Arc<Invocation>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        let spec = Spec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: parameters::<A>(),
            annotations: Annotations::default(),
            digest: None,
        };
        Ok(Self {
            contract: Contract::new(spec, GateLimits::default())?,
            policy: Policy::default(),
            wants_state: false,
            authorize: None,
            run: Box::new(move |arguments, invocation| Box::pin(run(arguments, invocation))),
            types: PhantomData,
        })
    }

    /// Says what it promises about its effects.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        self.contract = self.contract.with_annotations(annotations);
        self
    }

    /// Says how its calls are treated.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Lets only those calls through that `authorize` says yes to. It must not block.
    #[must_use]
    pub fn with_authorize(
        mut self,
        authorize: impl Fn(Option<&str>, &Invocation) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.authorize = Some(Box::new(authorize));
        self
    }

    /// Shows it the agent's state.
    #[must_use]
    pub fn with_state(mut self) -> Self {
        self.wants_state = true;
        self
    }
}

/// The schema of a type, without what would only repeat its Rust name.
fn parameters<A: JsonSchema>() -> Value {
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
        read::<A>(arguments).map(drop)
    }

    fn wants_state(&self) -> bool {
        self.wants_state
    }

    fn policy(&self) -> Policy {
        self.policy.clone()
    }

    fn call(&self, invocation: Arc<Invocation>) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let outcome = match read::<A>(&invocation.arguments) {
                Ok(arguments) => match (self.run)(arguments, Arc::clone(&invocation)).await {
                    Ok(output) => content(&output),
                    Err(Failure::Error(error)) => Err(error),
                    Err(Failure::Stop(stop)) => return Err(stop),
                },
                Err(wrong) => Err(CallError::new(ErrorKind::InvalidArguments, wrong)),
            };
            let (id, tool) = (invocation.id.clone(), invocation.tool.clone());
            Ok(CallResult { id, tool, outcome, metadata: Metadata::default() })
        })
    }
}

fn read<A: DeserializeOwned>(arguments: &Value) -> Result<A, String> {
    A::deserialize(arguments).map_err(|error| error.to_string())
}

fn content<O: Serialize>(output: &O) -> Result<Vec<Content>, CallError> {
    let bad =
        |error: serde_json::Error| CallError::new(ErrorKind::BadResult, format!("the result is not JSON: {error}"));
    Ok(vec![match serde_json::to_value(output).map_err(bad)? {
        Value::String(text) => Content::text(text),
        value => Content::json(value.to_string()).map_err(bad)?,
    }])
}
