//! The capabilities that one call uses, with the checks of their arguments and results.

use std::collections::HashMap;

use fumehood_core::call::limits::{Limits, display_bytes};
use fumehood_core::capability::{
    CapabilityCall, CapabilityContext, CapabilityError, CapabilitySession, Function, Value,
};

use super::{FunctionIndex, GrantedCapabilities};

/// Maximum size of the arguments of one function, and of its result, in bytes. Every value counts
/// [`Value::NODE_BYTES`] besides its text.
const MAX_VALUE_BYTES: usize = 2 << 20;

/// The sessions of one call.
pub(crate) struct CallSessions {
    granted: GrantedCapabilities,
    context: CapabilityContext,
    open: HashMap<usize, Box<dyn CapabilitySession>>,
    /// The handles that the guest owns.
    handles: usize,
    max_handles: usize,
}

impl CallSessions {
    pub(crate) fn new(granted: GrantedCapabilities, context: CapabilityContext, limits: &Limits) -> Self {
        Self { granted, context, open: HashMap::new(), handles: 0, max_handles: limits.handles }
    }

    /// Runs a function.
    ///
    /// # Errors
    /// If it is not granted, a value does not fit its type or is too large, or the capability fails.
    pub(crate) async fn call(
        &mut self,
        at: FunctionIndex,
        arguments: Vec<Value>,
    ) -> Result<Option<Value>, CapabilityError> {
        let granted = self.granted.clone();
        let Some((linked, interface, function)) = granted.all().function(at) else {
            return Err(CapabilityError::Failed("a function is missing".to_owned()));
        };
        let name = linked.definition.name();
        if function.check_arguments(&arguments).is_err() {
            return Err(CapabilityError::Misuse(format!(
                "the tool passed `{}` a value of another type",
                function.name
            )));
        }
        check_size(arguments.iter().map(Value::bytes).sum(), "the tool passed", function)?;
        let passed = count_passed(function, &arguments);
        let Some(capability) = granted.get(at.capability) else {
            self.context.refuse(format!("`{}` of `{}`", function.name, interface.name), not_granted(name));
            return Err(CapabilityError::Denied(not_granted(name)));
        };
        let session = self.open.entry(at.capability).or_insert_with(|| capability.open());
        let context = &self.context;
        let call = CapabilityCall { interface: &interface.name, function: &function.name, arguments, context };
        let result = session.call(call).await?;
        if function.check_result(result.as_ref()).is_err() {
            let reason = format!("the capability `{name}` returned a value of another type from `{}`", function.name);
            return Err(CapabilityError::Failed(reason));
        }
        check_size(result.as_ref().map_or(0, Value::bytes), "the capability returned", function)?;
        let returned = function.result.as_ref().zip(result.as_ref()).map_or(0, |(ty, value)| ty.owned_handles(value));
        self.handles = self.handles.saturating_sub(passed).saturating_add(returned);
        if self.handles > self.max_handles {
            return Err(CapabilityError::Quota(format!("the tool held more than {} handles", self.max_handles)));
        }
        Ok(result)
    }

    /// Drops a handle of a resource of this capability.
    pub(crate) fn drop_resource(&mut self, capability: usize, resource: &str, handle: u32) {
        self.handles = self.handles.saturating_sub(1);
        if let Some(session) = self.open.get_mut(&capability) {
            session.drop_resource(resource, handle);
        }
    }
}

fn not_granted(name: &str) -> String {
    format!("this tool was not granted the capability `{name}`")
}

fn check_size(bytes: usize, who: &str, function: &Function) -> Result<(), CapabilityError> {
    if bytes <= MAX_VALUE_BYTES {
        return Ok(());
    }
    let found = display_bytes(bytes as u64);
    let max = display_bytes(MAX_VALUE_BYTES as u64);
    Err(CapabilityError::Quota(format!("{who} {found} in one call of `{}`; the maximum is {max}", function.name)))
}

fn count_passed(function: &Function, arguments: &[Value]) -> usize {
    function.params.iter().zip(arguments).map(|((_, ty), value)| ty.owned_handles(value)).sum()
}
