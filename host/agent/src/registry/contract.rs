//! The checked contract of a tool: name, description, schema and annotations. A tool without one cannot be registered.

use std::sync::Arc;

use fumehood_core::chat::ToolSpec;
use fumehood_core::definition::Annotations;
use fumehood_core::digest::Digest;
use fumehood_core::gate::{Gate, GateLimits, SchemaError};
use fumehood_core::sanitize::truncate_str;
use serde_json::Value;

use crate::identity::{ActorArguments, IdentityError};
use crate::truncate::{clean, clean_schema};

/// Maximum bytes of a full name: a namespace, the separator and a name.
const MAX_NAME_BYTES: usize = 130;

/// Returns whether a tool can have this full name. Clients of model providers map it to a name that the provider
/// accepts.
pub(crate) fn is_full_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(allowed)
}

/// The description of a tool, unchecked.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The full name.
    pub name: String,
    /// The description for the model: what the tool does and when to use it.
    pub description: String,
    /// JSON Schema (2020-12) of the arguments.
    pub parameters: Value,
    /// The tool's claims about its effects.
    pub annotations: Annotations,
    /// The digest of the component, for tools of components.
    pub digest: Option<Digest>,
}

/// Errors returned by [`Contract::new`] and [`Contract::with_gate`].
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    /// An invalid name.
    #[error(
        "the tool {0:?} has a name that models cannot be told; expected 1 to {MAX_NAME_BYTES} of `a-z`, `A-Z`, `0-9`, \
         `_`, `-`, `.`"
    )]
    Name(String),
    /// A parameter that would let the model choose the actor.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A schema that is not accepted.
    #[error("the schema of the tool '{tool}' is not accepted")]
    Schema {
        /// The tool.
        tool: String,
        /// The reason.
        source: SchemaError,
    },
}

/// A checked description of a tool, and the gate of its arguments.
#[derive(Debug)]
pub struct Contract {
    spec: Spec,
    gate: Arc<Gate>,
}

impl Contract {
    /// Creates the contract of a function of the host.
    ///
    /// # Errors
    /// If the name is invalid, the schema does not compile, or an argument would let the model choose the actor.
    pub fn new(spec: Spec, limits: GateLimits) -> Result<Self, ContractError> {
        let gate = Gate::for_arguments(&spec.parameters, limits)
            .map_err(|source| ContractError::Schema { tool: spec.name.clone(), source })?;
        Self::with_gate(spec, Arc::new(gate), &ActorArguments::default())
    }

    /// Creates the contract of a tool with a compiled schema, in which the operator forbids the given arguments.
    ///
    /// # Errors
    /// If the name is invalid, or there is a forbidden argument.
    pub fn with_gate(spec: Spec, gate: Arc<Gate>, actor_arguments: &ActorArguments) -> Result<Self, ContractError> {
        if !is_full_name(&spec.name) {
            return Err(ContractError::Name(truncate_str(&spec.name, 80).to_owned()));
        }
        actor_arguments.check(&spec.name, &spec.parameters)?;
        Ok(Self { spec, gate })
    }

    /// Returns the description of the tool.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the gate that arguments have to pass.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Returns the full name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns the tool as a model sees it, without invisible characters and with the tags of prompts escaped.
    #[must_use]
    pub fn to_tool_spec(&self) -> ToolSpec {
        let Spec { name, description, parameters, .. } = &self.spec;
        ToolSpec { name: name.clone(), description: clean(description), parameters: clean_schema(parameters) }
    }

    /// Replaces the annotations.
    #[must_use]
    pub(super) fn with_annotations(mut self, annotations: Annotations) -> Self {
        self.spec.annotations = annotations;
        self
    }
}
