//! Capabilities: host interfaces that an embedder adds, with the grant that a tool needs for them.
//!
//! A [`Capability`] names the WIT interfaces that it provides, the type of its grant, and what a call of a tool may do
//! with it. The runtime links the interfaces, checks every value against its type, and enforces limits and deadlines.
//! Values are [`Value`]s, so a capability works the same in this process and for a worker process.

mod grant;
mod handle_table;
mod interface;
mod value;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::boxed::BoxFuture;
use crate::call::error_kind::ErrorKind;
use crate::call::{Power, Refusal};
use crate::tool::ToolFlow;
use crate::tool::name::Namespace;

pub use grant::{BoundCapability, CapabilityDefinition, CapabilityGrant, CapabilityGrantError, CapabilitySetupError};
pub use handle_table::{HandleError, HandleTable};
pub use interface::{Function, Interface, Mismatch, Type};
pub use value::Value;

/// A host interface of an embedder, such as access to a database.
///
/// The interfaces are written in WIT. A component that imports one of them is refused at load unless it was granted the
/// capability. The runtime checks arguments and results against the WIT, so an implementation can rely on their types.
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood_core::boxed::BoxFuture;
/// use fumehood_core::capability::{Capability, CapabilityCall, CapabilityError, CapabilitySession, Value};
///
/// struct Greeting;
///
/// impl Capability for Greeting {
///     /// The word that the tool greets with.
///     type Grant = String;
///
///     fn name(&self) -> &str {
///         "greeting"
///     }
///
///     fn description(&self) -> &str {
///         "greet people by name"
///     }
///
///     fn wit(&self) -> &str {
///         "package acme:greeting@0.1.0;
///          interface greeter {
///              greet: func(name: string) -> string;
///          }"
///     }
///
///     fn open(&self, word: Arc<String>) -> Box<dyn CapabilitySession> {
///         Box::new(Greeter(word))
///     }
/// }
///
/// struct Greeter(Arc<String>);
///
/// impl CapabilitySession for Greeter {
///     fn call<'a>(&'a mut self, call: CapabilityCall<'a>) -> BoxFuture<'a, Result<Option<Value>, CapabilityError>> {
///         Box::pin(async move {
///             match (call.function, call.arguments.as_slice()) {
///                 ("greet", [Value::String(name)]) => Ok(Some(Value::from(format!("{}, {name}", self.0)))),
///                 _ => Err(CapabilityError::unknown_function(&call)),
///             }
///         })
///     }
/// }
///
/// let grant = Greeting.grant(&"Good morning".to_owned())?;
/// assert_eq!(grant.line(), r#"capability greeting: "Good morning""#);
/// # Ok::<(), fumehood_core::capability::CapabilityGrantError>(())
/// ```
pub trait Capability: Send + Sync + 'static {
    /// What the operator grants: plain data, without secrets, because approvals pin its JSON text.
    type Grant: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Returns the name in grants, approvals and messages: lowercase words with hyphens, at most 64 bytes.
    fn name(&self) -> &str;

    /// Returns what a tool can do with it, as a phrase for people: `query the orders database`.
    fn description(&self) -> &str;

    /// Returns the WIT package with the interfaces. Async functions, streams, futures and maps are not supported.
    fn wit(&self) -> &str;

    /// Returns the JSON Schema of the grant, for editors and configurations; `None` if there is none.
    fn grant_schema(&self) -> Option<serde_json::Value> {
        None
    }

    /// Returns the flows of data of a tool with this grant. By default it is a source of private data and reaches the
    /// public, which is the worst case.
    fn flow(&self, grant: &Self::Grant) -> ToolFlow {
        let _any = grant;
        ToolFlow {
            source: Some("it has a capability that may return private data"),
            sink: Some("it has a capability that may send its arguments elsewhere"),
        }
    }

    /// Opens the capability for one call of a tool, when the tool first uses it. Must not block.
    ///
    /// The session is dropped when the call ends, so a transaction in it can roll back.
    fn open(&self, grant: Arc<Self::Grant>) -> Box<dyn CapabilitySession>;

    /// Creates a grant of this capability, for [`Grant::with_capability`](crate::policy::permission::Grant::with_capability).
    ///
    /// # Errors
    /// If the name is invalid, or the grant has no JSON form.
    fn grant(&self, grant: &Self::Grant) -> Result<CapabilityGrant, CapabilityGrantError> {
        Ok(CapabilityGrant::new(self.name(), grant)?.describe(self.description(), self.flow(grant)))
    }
}

impl<C: Capability> Capability for Arc<C> {
    type Grant = C::Grant;

    fn name(&self) -> &str {
        (**self).name()
    }

    fn description(&self) -> &str {
        (**self).description()
    }

    fn wit(&self) -> &str {
        (**self).wit()
    }

    fn grant_schema(&self) -> Option<serde_json::Value> {
        (**self).grant_schema()
    }

    fn flow(&self, grant: &Self::Grant) -> ToolFlow {
        (**self).flow(grant)
    }

    fn open(&self, grant: Arc<Self::Grant>) -> Box<dyn CapabilitySession> {
        (**self).open(grant)
    }
}

/// A capability in use by one call of a tool.
pub trait CapabilitySession: Send {
    /// Runs one function of an interface. The next one begins after this has ended.
    ///
    /// The future is dropped when the call reaches its deadline or is cancelled. Work that blocks belongs on a thread for
    /// it, such as `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    /// Ends the call of the tool. A failure that the tool can handle belongs in the result that the WIT declares.
    fn call<'a>(&'a mut self, call: CapabilityCall<'a>) -> BoxFuture<'a, Result<Option<Value>, CapabilityError>>;

    /// Drops a handle that the tool owned. Handles that are left are dropped with the session.
    fn drop_resource(&mut self, resource: &str, handle: u32) {
        let _ignored = (resource, handle);
    }
}

/// One use of a capability by a tool. The arguments fit the types of the function.
#[derive(Debug)]
pub struct CapabilityCall<'a> {
    /// The interface, with its version: `acme:database/query@0.1.0`.
    pub interface: &'a str,
    /// The function, as in WIT: `query`, or `[method]cursor.next` for a method of a resource.
    pub function: &'a str,
    /// The arguments, in order.
    pub arguments: Vec<Value>,
    /// The call of the tool.
    pub context: &'a CapabilityContext,
}

/// The call of a tool that uses a capability.
#[derive(Clone)]
pub struct CapabilityContext {
    /// The name of the component in its host.
    pub component: Option<Namespace>,
    /// The name of the tool within its component.
    pub tool: String,
    /// The id of the call.
    pub call_id: String,
    /// The person or program on whose behalf the call is made.
    pub actor: Option<Arc<str>>,
    /// Returns the time until the deadline of the call.
    pub time_left: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// Receives the refusals.
    pub refusals: Arc<dyn Fn(Refusal) + Send + Sync>,
}

impl CapabilityContext {
    /// Records that the tool tried something that its grant does not cover. If the tool then fails, the caller learns
    /// this reason. The texts may contain what the tool passed.
    pub fn refuse(&self, tried: impl Into<String>, because: impl Into<String>) {
        let refusal = Refusal { power: Power::Capability, tried: tried.into(), because: because.into(), allow: None };
        (self.refusals)(refusal);
    }
}

impl fmt::Debug for CapabilityContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapabilityContext").field("call_id", &self.call_id).finish_non_exhaustive()
    }
}

/// Errors that end the call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum CapabilityError {
    /// The service behind the capability does not answer now.
    #[error("{0}")]
    Unavailable(String),
    /// The grant does not cover the use.
    #[error("{0}")]
    Denied(String),
    /// The tool misused the interface, for example with a handle that it does not own.
    #[error("{0}")]
    Misuse(String),
    /// The tool used up something, such as the size of values or the number of handles.
    #[error("{0}")]
    Quota(String),
    /// The capability itself failed.
    #[error("{0}")]
    Failed(String),
}

impl CapabilityError {
    /// Creates the error of a function that the implementation does not have, although its WIT declares it.
    #[must_use]
    pub fn unknown_function(call: &CapabilityCall<'_>) -> Self {
        Self::Failed(format!("the capability does not implement `{}` of `{}`", call.function, call.interface))
    }

    /// Returns the kind of failure of the call.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable(_) => ErrorKind::Unavailable,
            Self::Denied(_) => ErrorKind::Denied,
            Self::Misuse(_) => ErrorKind::Trap,
            Self::Quota(_) => ErrorKind::Quota,
            Self::Failed(_) => ErrorKind::Host,
        }
    }
}

impl From<HandleError> for CapabilityError {
    fn from(error: HandleError) -> Self {
        Self::Misuse(error.to_string())
    }
}
