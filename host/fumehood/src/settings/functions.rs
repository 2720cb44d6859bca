//! Capabilities whose functions are written in the language of the program around the host: the packages of other languages make them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::capability::{
    Capability, CapabilityCall, CapabilityContext, CapabilityError, CapabilityGrant, CapabilitySession, Function,
    Interface, Type, Value,
};
use fumehood_core::text::sanitize::{printable, truncate_str};
use fumehood_runtime::capability_interfaces;

use super::error::SettingsError;
use super::plain_value::{PlainValue, PlainValueError, into_payload};

/// Maximum size of the message of a function that failed, in bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 10;

/// The functions of a capability, in the language of the program.
pub trait FunctionCaller: Send + Sync + 'static {
    /// Calls a function. Must not block.
    ///
    /// The future is dropped when the call of the tool reaches its deadline or is cancelled. The function is to stop then.
    fn call(&self, call: FunctionCall) -> BoxFuture<'static, Result<PlainValue, FunctionError>>;
}

/// One call of a function.
#[derive(Debug)]
pub struct FunctionCall {
    /// The position of the function among the names that the capability was created with.
    pub function: usize,
    /// The arguments, in order.
    pub arguments: Vec<PlainValue>,
    /// The grant of the component, as JSON text.
    pub grant: Arc<str>,
    /// The call of the tool.
    pub context: CapabilityContext,
}

/// Outcomes of a function other than its value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FunctionError {
    /// The failure that the `result` of the WIT declares, for the tool.
    Err(PlainValue),
    /// The grant does not cover the use.
    Denied(String),
    /// The program cannot run the function now.
    Unavailable(String),
    /// The function failed.
    Failed(String),
}

/// A capability whose functions belong to the program around the host. Its grant is any JSON. Cheap to clone.
#[derive(Clone)]
pub struct FunctionCapability(Arc<Definition>);

struct Definition {
    name: String,
    description: String,
    wit: String,
    interfaces: Vec<Interface>,
    /// The positions of the functions, by interface and name.
    positions: HashMap<(String, String), usize>,
    caller: Arc<dyn FunctionCaller>,
}

impl fmt::Debug for FunctionCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FunctionCapability").field(&self.0.name).finish()
    }
}

impl FunctionCapability {
    /// Creates a capability. `functions` are the names of its functions: `select`, or `tables.select` with the interface.
    ///
    /// # Errors
    /// If the name or the WIT cannot be used, a function is missing or unknown, or the WIT has resources.
    pub fn new(
        name: &str,
        description: &str,
        wit: &str,
        functions: &[String],
        caller: Arc<dyn FunctionCaller>,
    ) -> Result<Self, SettingsError> {
        CapabilityGrant::new(name, &()).map_err(|error| SettingsError::setting("capabilities", error))?;
        let interfaces = capability_interfaces(wit).map_err(|reason| setup_error(name, &reason))?;
        let resource = interfaces.iter().flat_map(|interface| &interface.resources).next();
        if let Some((resource, _)) = resource {
            let reason = format!(
                "its WIT has the resource `{resource}`, which only a capability in Rust can provide; pass numbers or texts as keys"
            );
            return Err(setup_error(name, &reason));
        }
        let positions = find_positions(&interfaces, functions).map_err(|reason| setup_error(name, &reason))?;
        let definition = Definition {
            name: name.to_owned(),
            description: description.to_owned(),
            wit: wit.to_owned(),
            interfaces,
            positions,
            caller,
        };
        Ok(Self(Arc::new(definition)))
    }
}

/// Creates the error of a capability that cannot be used.
fn setup_error(name: &str, reason: &dyn fmt::Display) -> SettingsError {
    SettingsError::setting("capabilities", format!("the capability `{}`: {reason}", printable(name)))
}

/// Finds the position of each function of the interfaces in the list of names.
fn find_positions(interfaces: &[Interface], names: &[String]) -> Result<HashMap<(String, String), usize>, String> {
    let mut positions = HashMap::new();
    let mut expected = Vec::new();
    for interface in interfaces {
        for function in &interface.functions {
            let qualified = format!("{}.{}", short_name(&interface.name), function.name);
            let is_only = interfaces.iter().filter(|other| has_function(other, &function.name)).count() == 1;
            let fits = |name: &String| *name == qualified || (is_only && *name == function.name);
            let shown = if is_only { &function.name } else { &qualified };
            expected.push(format!("`{shown}`"));
            let Some(at) = names.iter().position(fits) else {
                return Err(format!("the function `{shown}` of `{}` is missing", interface.name));
            };
            positions.insert((interface.name.clone(), function.name.clone()), at);
        }
    }
    let unknown = names.iter().enumerate().find(|(at, _)| !positions.values().any(|used| used == at));
    match unknown {
        None => Ok(positions),
        Some((_, name)) => {
            Err(format!("`{}` is not a function of its WIT; expected {}", printable(name), expected.join(", ")))
        }
    }
}

fn has_function(interface: &Interface, name: &str) -> bool {
    interface.functions.iter().any(|function| function.name == name)
}

/// Returns the name of an interface without its package and version: `tables` of `acme:database/tables@0.1.0`.
fn short_name(interface: &str) -> &str {
    let name = interface.split_once('@').map_or(interface, |(name, _)| name);
    name.rsplit_once('/').map_or(name, |(_, name)| name)
}

impl Capability for FunctionCapability {
    type Grant = serde_json::Value;

    fn name(&self) -> &str {
        &self.0.name
    }

    fn description(&self) -> &str {
        &self.0.description
    }

    fn wit(&self) -> &str {
        &self.0.wit
    }

    fn open(&self, grant: Arc<serde_json::Value>) -> Box<dyn CapabilitySession> {
        Box::new(Session { definition: Arc::clone(&self.0), grant: grant.to_string().into() })
    }
}

struct Session {
    definition: Arc<Definition>,
    grant: Arc<str>,
}

impl CapabilitySession for Session {
    fn call<'a>(&'a mut self, call: CapabilityCall<'a>) -> BoxFuture<'a, Result<Option<Value>, CapabilityError>> {
        Box::pin(async move {
            let (function, position) =
                self.definition.find(&call).ok_or_else(|| CapabilityError::unknown_function(&call))?;
            let types = function.params.iter().map(|(_, ty)| ty);
            let arguments = call.arguments.into_iter().zip(types);
            let arguments = arguments.map(|(value, ty)| PlainValue::from_value(value, ty)).collect();
            let grant = Arc::clone(&self.grant);
            let context = call.context.clone();
            let returned =
                self.definition.caller.call(FunctionCall { function: position, arguments, grant, context }).await;
            convert(returned, function).map_err(|error| self.definition.capability_error(error, function))
        })
    }
}

/// Converts the outcome of a function by the type of its result.
fn convert(returned: Result<PlainValue, FunctionError>, function: &Function) -> Result<Option<Value>, FunctionError> {
    match (returned, &function.result) {
        (Ok(value), None) => into_payload(value, None).map(|_none| None).map_err(|error| mistyped("returned", &error)),
        (Ok(value), Some(Type::Result { ok, .. })) => {
            let payload = into_payload(value, ok.as_deref()).map_err(|error| mistyped("returned", &error))?;
            Ok(Some(Value::Result(Ok(payload))))
        }
        (Ok(value), Some(ty)) => value.into_value(ty).map(Some).map_err(|error| mistyped("returned", &error)),
        (Err(FunctionError::Err(value)), Some(Type::Result { err, .. })) => {
            let payload = into_payload(value, err.as_deref()).map_err(|error| mistyped("raised", &error))?;
            Ok(Some(Value::Result(Err(payload))))
        }
        (Err(FunctionError::Err(_)), _) => {
            Err(FunctionError::Failed("it raised an `Err`, but its WIT declares no `result`".to_owned()))
        }
        (Err(error), _) => Err(error),
    }
}

fn mistyped(what: &str, error: &PlainValueError) -> FunctionError {
    FunctionError::Failed(format!("it {what} a value of another type: {error}"))
}

impl Definition {
    fn find(&self, call: &CapabilityCall<'_>) -> Option<(&Function, usize)> {
        let position = self.positions.get(&(call.interface.to_owned(), call.function.to_owned()))?;
        let interface = self.interfaces.iter().find(|interface| interface.name == call.interface)?;
        let function = interface.functions.iter().find(|function| function.name == call.function)?;
        Some((function, *position))
    }

    /// Creates the error that ends the call of the tool. The messages of programs may have any characters and any length.
    fn capability_error(&self, error: FunctionError, function: &Function) -> CapabilityError {
        match error {
            FunctionError::Denied(message) => {
                CapabilityError::Denied(printable(truncate_str(&message, MAX_MESSAGE_BYTES)).into_owned())
            }
            FunctionError::Unavailable(message) => CapabilityError::Unavailable(self.describe(function, &message)),
            FunctionError::Failed(message) => CapabilityError::Failed(self.describe(function, &message)),
            FunctionError::Err(_) => CapabilityError::Failed(self.describe(function, "it has no such outcome")),
        }
    }

    fn describe(&self, function: &Function, message: &str) -> String {
        let message = printable(truncate_str(message, MAX_MESSAGE_BYTES));
        format!("the function `{}` of the capability `{}` failed: {message}", function.name, self.name)
    }
}
