//! `wasi:config/store`: the environment variables that were granted, as a configuration.

use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::capability::{
    BoundCapability, Capability, CapabilityCall, CapabilityDefinition, CapabilityError, CapabilitySession, Value,
};
use fumehood_core::policy::permission::{Grant, Power};
use fumehood_core::tool::ToolFlow;

use super::BuiltIn;
use crate::wasi::ComponentStore;

pub(super) const BUILT_IN: BuiltIn =
    BuiltIn { power: Power::Env, define: || CapabilityDefinition::new(ConfigStore), bind };

/// Names and values, in the order of the grant.
type Variables = Vec<(String, String)>;

struct ConfigStore;

impl Capability for ConfigStore {
    type Grant = Variables;

    fn name(&self) -> &str {
        "wasi-config"
    }

    fn description(&self) -> &str {
        "read its configuration, which is the granted environment variables"
    }

    fn wit(&self) -> &str {
        include_str!("config.wit")
    }

    fn flow(&self, _variables: &Variables) -> ToolFlow {
        ToolFlow::NONE
    }

    fn open(&self, variables: Arc<Variables>) -> Box<dyn CapabilitySession> {
        Box::new(Session(variables))
    }
}

fn bind(grant: &Grant, _store: &Arc<ComponentStore>) -> BoundCapability {
    let variables = Arc::new(grant.environment().variables().to_vec());
    BoundCapability::new(move || ConfigStore.open(Arc::clone(&variables)))
}

struct Session(Arc<Variables>);

impl CapabilitySession for Session {
    fn call<'a>(&'a mut self, call: CapabilityCall<'a>) -> BoxFuture<'a, Result<Option<Value>, CapabilityError>> {
        let variables = self.0.iter();
        let result = match (call.function, call.arguments.as_slice()) {
            ("get", [Value::String(key)]) => {
                let found = variables.map(|(name, value)| (name, value)).find(|(name, _)| *name == key);
                Ok(Value::from(found.map(|(_, value)| value.clone())))
            }
            ("get-all", []) => Ok(variables
                .map(|(name, value)| Value::Tuple(vec![name.clone().into(), value.clone().into()]))
                .collect()),
            _ => Err(CapabilityError::unknown_function(&call)),
        };
        Box::pin(std::future::ready(result.map(|value: Value| Some(Value::ok(value)))))
    }
}
