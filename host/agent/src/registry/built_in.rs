//! Tools that are Rust functions with typed arguments. The schema of a tool comes from its type.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::flow::ToolFlow;
use fumehood_core::schema::gate::{Gate, GateLimits, SchemaError};
use fumehood_core::tool::definition::{Annotations, ToolDefinition};
use fumehood_core::tool::name::{NameError, ToolName};
use fumehood_core::tool::{Stop, Tool, ValidatedCall};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::call_session::CallSession;
use super::identity::{ActorArguments, IdentityError};
use super::policy::ToolPolicy;

/// The purpose of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The tool performs an action.
    #[default]
    Action,
    /// The tool returns a text that belongs to a skill.
    Knowledge,
}

/// A function of the host as a tool, with what only the host's own code may say about one.
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood_agent::registry::{BuiltIn, BuiltInTool};
/// use fumehood_core::call::CallContext;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Order {
///     /// The number of cups.
///     cups: u32,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let order = BuiltIn::new("order", "Orders tea", |order: Order, _: CallContext| async move { Ok(order.cups) })?;
/// // Guests have no actor, and may not order.
/// let order = order.with_authorize(|actor, _| actor.is_some());
/// let call = order.tool().validate(r#"{"cups": 2}"#.into())?;
/// assert!(order.authorize(Some("ann"), &call) && !order.authorize(None, &call));
/// let tool: Arc<dyn BuiltInTool> = Arc::new(order);
/// assert_eq!(tool.tool().full_name(), "order");
/// # Ok(())
/// # }
/// ```
pub trait BuiltInTool: Send + Sync {
    /// Returns the tool.
    fn tool(&self) -> &Arc<Tool>;

    /// Returns whether the actor may make this call. Checked after the gate and before all rules. Must not block.
    fn authorize(&self, actor: Option<&str>, call: &ValidatedCall) -> bool {
        let _ = (actor, call);
        true
    }

    /// Checks arguments that fit the schema against the function's own type. Called after the gate.
    ///
    /// # Errors
    /// A description of the problem, if the type does not accept them.
    fn accepts(&self, arguments: &Value) -> Result<(), String> {
        let _ = arguments;
        Ok(())
    }

    /// Returns the purpose of the tool.
    fn purpose(&self) -> Purpose {
        Purpose::Action
    }

    /// Returns the tool's own policy.
    fn policy(&self) -> ToolPolicy {
        ToolPolicy::default()
    }

    /// Runs a call. Dropping the future stops it.
    ///
    /// # Errors
    /// Only to end the whole run; a failure of the call is a result.
    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>>;

    /// Runs a call that is part of a session of an agent. The default ignores the session.
    ///
    /// # Errors
    /// As [`BuiltInTool::call`].
    fn call_in(
        &self,
        call: ValidatedCall,
        context: CallContext,
        session: CallSession,
    ) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let _ = session;
        self.call(call, context)
    }
}

/// Errors of a tool that cannot be presented to a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// An invalid name.
    #[error("the tool has an invalid name")]
    Name(#[from] NameError),
    /// A parameter that would let the model choose the actor.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A schema that is not accepted.
    #[error("the schema of the tool '{tool}' is invalid")]
    Schema {
        /// The tool.
        tool: String,
        /// The reason.
        source: Box<SchemaError>,
    },
}

/// Creates the tool of a function with this JSON Schema (2020-12) of its arguments.
///
/// # Errors
/// If the name is invalid, the schema does not compile, or an argument would let the model choose the actor.
pub fn built_in_tool(
    name: &str,
    description: &str,
    input_schema: Value,
    annotations: Annotations,
) -> Result<Tool, ToolError> {
    let tool_name = ToolName::for_component(name)?;
    let gate = Gate::for_arguments(&input_schema, GateLimits::default())
        .map_err(|source| ToolError::Schema { tool: name.to_owned(), source: Box::new(source) })?;
    ActorArguments::default().check(name, &input_schema)?;
    let definition = ToolDefinition {
        name: tool_name,
        export: None,
        title: None,
        description: description.into(),
        input_schema: input_schema.into(),
        output_schema: None,
        annotations,
        mcp_members: None,
    };
    Ok(Tool::new(definition, gate))
}

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

type Run<A, O> = dyn Fn(A, CallContext) -> BoxFuture<'static, Result<O, BuiltInError>> + Send + Sync;
type Authorize = dyn Fn(Option<&str>, &ValidatedCall) -> bool + Send + Sync;

/// A Rust function as a tool. It runs in the process of the host and must not block.
///
/// ```
/// use fumehood_agent::registry::{BuiltIn, BuiltIns};
/// use fumehood_core::call::{Call, CallContext};
/// use fumehood_core::tool::ToolProvider as _;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Arguments {
///     /// The text whose words are counted.
///     text: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let count = BuiltIn::new("count", "Counts the words of a text", |arguments: Arguments, _: CallContext| async move {
///     Ok(arguments.text.split_whitespace().count())
/// })?;
/// let tools = BuiltIns::default();
/// tools.register(count)?;
/// let counted = tools.dispatch(Call::new("count", r#"{"text": "one two"}"#)).await;
/// assert_eq!(counted.json::<usize>()?, 2);
/// // The gate checks the arguments of functions, too.
/// assert!(!tools.dispatch(Call::new("count", r#"{"text": 2}"#)).await.is_ok());
/// # Ok(())
/// # }
/// ```
pub struct BuiltIn<A, O> {
    tool: Arc<Tool>,
    policy: ToolPolicy,
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
    pub fn new<F, R>(name: &str, description: &str, run: F) -> Result<Self, ToolError>
    where
        F: Fn(A, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, BuiltInError>> + Send + 'static,
    {
        let tool = built_in_tool(name, description, schema_of::<A>(), Annotations::default())?;
        Ok(Self {
            tool: Arc::new(tool),
            policy: ToolPolicy::default(),
            needs_state: false,
            authorize: None,
            run: Box::new(move |arguments, context| Box::pin(run(arguments, context))),
            types: PhantomData,
        })
    }

    /// Sets the annotations: the tool's claims about its effects.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        let tool = Arc::unwrap_or_clone(self.tool);
        self.tool = Arc::new(tool.with_definition(|definition| definition.annotations = annotations));
        self
    }

    /// Sets the tool's flows of data. Without this it counts as a public sink, unless its annotations say that it stays in
    /// a closed world, and not as a private source.
    #[must_use]
    pub fn with_flow(mut self, flow: ToolFlow) -> Self {
        self.tool = Arc::new(Arc::unwrap_or_clone(self.tool).with_flow(flow));
        self
    }

    /// Sets the tool's own policy.
    #[must_use]
    pub fn with_policy(mut self, policy: ToolPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Restricts calls to those for which `authorize` returns `true`. It must not block.
    #[must_use]
    pub fn with_authorize(
        mut self,
        authorize: impl Fn(Option<&str>, &ValidatedCall) -> bool + Send + Sync + 'static,
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

impl<A, O> BuiltInTool for BuiltIn<A, O>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + Send + 'static,
{
    fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    fn authorize(&self, actor: Option<&str>, call: &ValidatedCall) -> bool {
        self.authorize.as_ref().is_none_or(|authorize| authorize(actor, call))
    }

    fn accepts(&self, arguments: &Value) -> Result<(), String> {
        deserialize::<A>(arguments).map(drop)
    }

    fn policy(&self) -> ToolPolicy {
        self.policy.clone()
    }

    fn call(&self, call: ValidatedCall, mut context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let id = context.id.clone();
            if !self.needs_state {
                context.state = None;
            }
            let outcome = match deserialize::<A>(call.arguments()) {
                Ok(arguments) => match (self.run)(arguments, context).await {
                    Ok(output) => to_content(&output),
                    Err(BuiltInError::Error(error)) => Err(error),
                    Err(BuiltInError::Stop(stop)) => return Err(stop),
                },
                Err(message) => Err(CallError::new(ErrorKind::InvalidArguments, message)),
            };
            Ok(CallResult { id, tool: self.tool.full_name().to_owned(), outcome, metadata: Metadata::default() })
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
