//! What a tool says about itself, once it has been checked: a tool without a checked contract cannot be registered.

use std::sync::Arc;

use fumehood_core::chat::ToolSpec;
use fumehood_core::definition::Annotations;
use fumehood_core::digest::Digest;
use fumehood_core::gate::{Gate, GateLimits, SchemaError};
use fumehood_core::sanitize::truncate_str;
use serde_json::Value;

use crate::identity::{ActorArguments, IdentityError};
use crate::truncate::{clean, clean_schema};

/// The longest full name, in bytes: a namespace, the separator and a name.
const NAME_BYTES: usize = 130;

/// Whether a tool can have this full name. Clients of providers see to it that a provider is told one that it takes.
pub(crate) fn is_full_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.len() <= NAME_BYTES && name.chars().all(allowed)
}

/// What a tool says about itself.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Its full name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema (2020-12) of the arguments.
    pub parameters: Value,
    /// What it promises about its effects.
    pub annotations: Annotations,
    /// Which bytes it is, for components.
    pub digest: Option<Digest>,
}

/// Why a tool cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    /// Its name is not one.
    #[error(
        "the tool {0:?} has a name that models cannot be told; expected 1 to {NAME_BYTES} of `a-z`, `A-Z`, `0-9`, \
         `_`, `-`, `.`"
    )]
    Name(String),
    /// A parameter would let the model choose the actor.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Its schema is not accepted.
    #[error("the schema of the tool '{tool}' is not accepted")]
    Schema {
        /// Which tool.
        tool: String,
        /// Why.
        source: SchemaError,
    },
}

/// A tool's word about itself, checked.
#[derive(Debug)]
pub struct Contract {
    spec: Spec,
    gate: Arc<Gate>,
}

impl Contract {
    /// The contract of a function of the host: checks the name, compiles the schema, and looks for arguments that say on
    /// whose behalf it runs.
    ///
    /// # Errors
    /// If any of this is not acceptable.
    pub fn new(spec: Spec, limits: GateLimits) -> Result<Self, ContractError> {
        let gate = Gate::for_arguments(&spec.parameters, limits)
            .map_err(|source| ContractError::Schema { tool: spec.name.clone(), source })?;
        Self::with_gate(spec, Arc::new(gate), &ActorArguments::default())
    }

    /// The contract of a tool whose schema was compiled before, and in which the operator wants no argument of these names.
    ///
    /// # Errors
    /// If the name is none, or there is such an argument.
    pub fn with_gate(spec: Spec, gate: Arc<Gate>, actor_arguments: &ActorArguments) -> Result<Self, ContractError> {
        if !is_full_name(&spec.name) {
            return Err(ContractError::Name(truncate_str(&spec.name, 80).to_owned()));
        }
        actor_arguments.check(&spec.name, &spec.parameters)?;
        Ok(Self { spec, gate })
    }

    /// What the tool says.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What its arguments have to pass.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The full name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The tool as a model sees it: nothing in its texts is invisible or poses as a part of the prompt.
    #[must_use]
    pub fn shown(&self) -> ToolSpec {
        let Spec { name, description, parameters, .. } = &self.spec;
        ToolSpec { name: name.clone(), description: clean(description), parameters: clean_schema(parameters) }
    }

    /// What it promises, changed before the tool is shared.
    #[must_use]
    pub(super) fn with_annotations(mut self, annotations: Annotations) -> Self {
        self.spec.annotations = annotations;
        self
    }
}
