//! Tools as all providers describe them, and the port that providers implement.

mod aliases;
pub mod command_template;
pub mod definition;
mod layer;
pub mod name;
mod provider;
pub mod resource;
mod result_form;
pub mod search;
mod tool_flow;
mod validated_call;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::call::content::Content;
use crate::call::error_kind::ErrorKind;
use crate::call::result::CallError;
use crate::call::{Arguments, CallContext};
use crate::chat::ToolSpec;
use crate::digest::Digest;
use crate::schema::gate::{Gate, RepairPolicy};
use crate::text::untrusted::Untrusted;
use crate::tool::definition::ToolDefinition;
use crate::tool::name::{Namespace, QualifiedName};
use crate::tool::resource::ToolResources;
pub use aliases::{NameForm, ToolAliases, is_named};
pub use layer::{PendingCall, ToolLayer};
pub use provider::{Changes, ProviderKind, Revision, Stop, ToolProvider, unknown_tool};
pub use result_form::ResultForm;
pub use tool_flow::ToolFlow;
pub use validated_call::{InvalidCall, ValidatedCall};

/// Maximum number of validation steps that are worth doing on the caller's thread. They take about 5 ms at worst;
/// another thread would cost more than it saves.
pub const MAX_INLINE_STEPS: u64 = 100_000;

/// The name of the custom section with the wishes of a component's author, as JSON.
pub const WISHES_SECTION: &str = "fumehood-wishes";
/// Maximum size of that section, in bytes.
pub const MAX_WISHES_BYTES: usize = 16 << 10;

/// A tool that can be called: its name, its definition and the compiled schemas of its arguments and results.
///
/// Made once by its provider, and shared by all calls. Cheap to clone.
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood_core::call::result::CallError;
/// use fumehood_core::schema::gate::{Gate, GateLimits};
/// use fumehood_core::tool::Tool;
/// use fumehood_core::tool::definition::{DefinitionLimits, RawDefinition};
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
/// let raw = RawDefinition { name: "count".to_owned(), input_schema: schema.to_string(), ..RawDefinition::default() };
/// let definition = raw.parse(&DefinitionLimits::default())?;
/// let tool = Tool::new(definition, Gate::for_arguments(&schema, GateLimits::default())?);
/// let tool = Arc::new(tool.in_namespace(&"text".parse()?));
/// assert_eq!(tool.full_name(), "text__count");
///
/// // The refusal of wrong arguments says how to correct them.
/// let refused = tool.validate("{}".into()).map_err(CallError::from);
/// assert!(refused.is_err_and(|error| error.to_string().contains("text")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tool {
    name: Arc<str>,
    namespace: Option<Namespace>,
    alias: Option<Arc<str>>,
    definition: Arc<ToolDefinition>,
    arguments: Arc<Gate>,
    results: Option<Arc<Gate>>,
    digest: Option<Digest>,
    powers: Arc<[String]>,
    grant: Option<Digest>,
    flow: Option<ToolFlow>,
    refusal: Option<Arc<CallError>>,
    result_form: ResultForm,
    instructions: Option<Arc<Untrusted<String>>>,
    is_for_pages: bool,
    resources: Option<Arc<ToolResources>>,
}

impl fmt::Debug for Tool {
    /// Leaves out everything that the tool says about itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Tool {
    /// Creates a function of the host, which has no namespace. `arguments` is compiled from the definition's schema.
    #[must_use]
    pub fn new(definition: ToolDefinition, arguments: Gate) -> Self {
        Self {
            name: definition.name.as_str().into(),
            namespace: None,
            alias: None,
            definition: Arc::new(definition),
            arguments: Arc::new(arguments),
            results: None,
            digest: None,
            powers: Arc::default(),
            grant: None,
            flow: None,
            refusal: None,
            result_form: ResultForm::default(),
            instructions: None,
            is_for_pages: false,
            resources: None,
        }
    }

    /// Puts it into the namespace of its component or server: its full name is `namespace__tool`.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &Namespace) -> Self {
        let tool = self.definition.name.clone();
        self.name = QualifiedName { namespace: namespace.clone(), tool }.to_string().into();
        self.namespace = Some(namespace.clone());
        self
    }

    /// Sets the name that models and clients are given instead of the full name, unless another tool has it.
    #[must_use]
    pub fn with_alias(mut self, alias: Option<&str>) -> Self {
        self.alias = alias.map(Arc::from);
        self
    }

    /// Sets the gate of its results, compiled from its output schema.
    #[must_use]
    pub fn result_gate(mut self, results: Option<Gate>) -> Self {
        self.results = results.map(Arc::new);
        self
    }

    /// Sets the form of its results.
    #[must_use]
    pub fn with_result_form(mut self, form: ResultForm) -> Self {
        self.result_form = form;
        self
    }

    /// Returns the form of its results.
    #[must_use]
    pub fn result_form(&self) -> ResultForm {
        self.result_form
    }

    /// Sets the instructions of its server, which all tools of that server have.
    #[must_use]
    pub fn with_instructions(mut self, instructions: Option<Arc<Untrusted<String>>>) -> Self {
        self.instructions = instructions;
        self
    }

    /// Returns the instructions of its server: text for models about its tools as a whole.
    #[must_use]
    pub fn instructions(&self) -> Option<&Untrusted<String>> {
        self.instructions.as_deref()
    }

    /// Makes it the tool that stands for reading these resources of its component: see [`READ_RESOURCE`](resource::READ_RESOURCE).
    #[must_use]
    pub fn reading(mut self, resources: ToolResources) -> Self {
        self.resources = Some(Arc::new(resources));
        self
    }

    /// Returns the resources that it reads, if it stands for that. Such a tool is found by its name, and not listed.
    #[must_use]
    pub fn resources(&self) -> Option<&ToolResources> {
        self.resources.as_deref()
    }

    /// Sets the digest that identifies its code, or its definition where the code is elsewhere.
    #[must_use]
    pub fn identified_by(mut self, digest: Digest) -> Self {
        self.digest = Some(digest);
        self
    }

    /// Sets its powers beyond computing, one phrase for each, such as `read files in /docs`.
    #[must_use]
    pub fn granted(mut self, powers: Arc<[String]>) -> Self {
        self.powers = powers;
        self
    }

    /// Sets the digest of its exact powers, which [`Tool::granted`] only describes.
    #[must_use]
    pub fn grant_digest(mut self, digest: Digest) -> Self {
        self.grant = Some(digest);
        self
    }

    /// Sets its flows of data, as they follow from its powers. Without them, only its own claim is known.
    #[must_use]
    pub fn with_flow(mut self, flow: ToolFlow) -> Self {
        self.flow = Some(flow);
        self
    }

    /// Withholds it: every call fails with `refusal`, and models and clients see nothing of its own words.
    #[must_use]
    pub fn withheld(mut self, refusal: Option<CallError>) -> Self {
        self.refusal = refusal.map(Arc::new);
        self
    }

    /// Keeps it from models: only pages of its own server (MCP Apps) call it.
    #[must_use]
    pub fn only_for_pages(mut self, is_for_pages: bool) -> Self {
        self.is_for_pages = is_for_pages;
        self
    }

    /// Changes its definition, except for its name and its schemas.
    #[must_use]
    pub fn with_definition(mut self, change: impl FnOnce(&mut ToolDefinition)) -> Self {
        change(Arc::make_mut(&mut self.definition));
        self
    }

    /// Returns whether models may see it.
    #[must_use]
    pub fn is_for_models(&self) -> bool {
        !self.is_for_pages
    }

    /// Returns the full name: `namespace__tool`, or the name alone for a function of the host.
    #[must_use]
    pub fn full_name(&self) -> &str {
        &self.name
    }

    /// Returns the name of its component or server; `None` for a function of the host.
    #[must_use]
    pub fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    /// Returns the name that models and clients should be given instead of the full name, if there is one: see
    /// [`ToolAliases`].
    #[must_use]
    pub fn alias(&self) -> Option<&str> {
        self.alias.as_deref()
    }

    /// Returns the definition, validated.
    #[must_use]
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// Returns the JSON Schema of its arguments, as the provider wrote it.
    #[must_use]
    pub fn input_schema(&self) -> &Value {
        self.definition.input_schema.expose_raw()
    }

    /// Returns the digest that identifies it, if there is one.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Returns its powers beyond computing, one phrase for each.
    #[must_use]
    pub fn powers(&self) -> &[String] {
        &self.powers
    }

    /// Returns the digest of its exact powers, if it is known.
    #[must_use]
    pub fn powers_digest(&self) -> Option<Digest> {
        self.grant
    }

    /// Returns the digest of everything that the approval of a call of it is about: its name, its code or the server's
    /// definition, what it says of itself, its exact powers, and these arguments.
    #[must_use]
    pub fn approval_digest(&self, arguments: &Value) -> Digest {
        let about =
            serde_json::json!([self.full_name(), self.digest, self.grant, &*self.powers, &*self.definition, arguments]);
        Digest::of(about.to_string().as_bytes())
    }

    /// Returns its flows of data, as far as no labels say otherwise. Its own claim can only add to those that follow from
    /// its powers.
    #[must_use]
    pub fn flow(&self) -> ToolFlow {
        let claim = self.definition.annotations.open_world;
        self.flow.map_or_else(|| ToolFlow::of_claim(claim, self.namespace.is_none()), |flow| flow.with_claim(claim))
    }

    /// Returns the error of every call of it, if it is withheld because nobody approved it.
    #[must_use]
    pub fn refusal(&self) -> Option<&CallError> {
        self.refusal.as_deref()
    }

    /// Returns whether it may be called, as far as approvals are concerned. If not, no part of its own description
    /// should reach a model.
    #[must_use]
    pub fn is_approved(&self) -> bool {
        self.refusal.is_none()
    }

    /// Returns the tool as a model sees it. Texts are not sanitized. One that is withheld says nothing of itself.
    #[must_use]
    pub fn to_spec(&self) -> ToolSpec {
        let name = self.name.to_string();
        let alias = self.alias.as_deref().map(str::to_owned);
        if self.refusal.is_some() {
            let description = "Cannot be called now: an operator must approve it first.".to_owned();
            let parameters = serde_json::json!({"type": "object", "additionalProperties": true});
            return ToolSpec { name, alias, description, parameters };
        }
        // Raw, because whoever shows it to a model escapes hidden characters and the tags of prompts.
        let description = self.definition.description.expose_raw().clone();
        ToolSpec { name, alias, description, parameters: self.input_schema().clone() }
    }

    /// Returns an upper bound of the steps of [`Tool::validate`]; see [`MAX_INLINE_STEPS`].
    #[must_use]
    pub fn validation_steps(&self, arguments: &Arguments) -> u64 {
        match arguments {
            Arguments::Text(text) => self.arguments.max_steps_for_text(text),
            Arguments::Value(value) => self.arguments.max_steps_for_value(value),
        }
    }

    /// Checks arguments against the schema. The only way to a [`ValidatedCall`], with [`Tool::validate_for`].
    ///
    /// # Errors
    /// If the tool is withheld, or the arguments do not match: everything that does not match.
    pub fn validate(self: &Arc<Self>, arguments: Arguments) -> Result<ValidatedCall, InvalidCall> {
        self.validate_with(arguments, None)
    }

    /// Like [`Tool::validate`], with the repairs that this call may get: see [`Gate::repair`].
    ///
    /// # Errors
    /// As for [`Tool::validate`].
    pub fn validate_for(
        self: &Arc<Self>,
        arguments: Arguments,
        context: &CallContext,
    ) -> Result<ValidatedCall, InvalidCall> {
        self.validate_with(arguments, context.repairs.as_deref())
    }

    /// Like [`Tool::validate`], with these repairs.
    ///
    /// # Errors
    /// As for [`Tool::validate`].
    pub fn validate_with(
        self: &Arc<Self>,
        arguments: Arguments,
        repairs: Option<&RepairPolicy>,
    ) -> Result<ValidatedCall, InvalidCall> {
        if let Some(refusal) = &self.refusal {
            return Err(InvalidCall::Withheld(CallError::clone(refusal)));
        }
        let (violations, repaired) = match arguments {
            Arguments::Text(text) if self.arguments.accepts_compact(&text) => {
                return Ok(ValidatedCall::of_compact_text(Arc::clone(self), text));
            }
            Arguments::Text(text) => match self.arguments.parse_text(&text) {
                Ok((value, is_compact)) => {
                    return Ok(ValidatedCall::new(Arc::clone(self), value, is_compact.then_some(text)));
                }
                Err(violations) => (violations, repairs.and_then(|policy| self.arguments.repair_text(&text, policy))),
            },
            Arguments::Value(value) => match self.arguments.check(&value) {
                Ok(()) => return Ok(ValidatedCall::new(Arc::clone(self), value, None)),
                Err(violations) => (violations, repairs.and_then(|policy| self.arguments.repair(value, policy))),
            },
        };
        match repaired {
            Some(repaired) => Ok(ValidatedCall::of_repaired(Arc::clone(self), repaired)),
            None => Err(InvalidCall::Arguments(violations)),
        }
    }

    /// Returns an upper bound of the steps of [`Tool::check_result`]; zero without an output schema.
    #[must_use]
    pub fn result_steps(&self, parts: &[Content]) -> u64 {
        let Some(gate) = &self.results else { return 0 };
        let steps = |part: &Content| match part {
            Content::Json { value } => gate.max_steps_for_text(value.expose_raw()),
            other => gate.max_steps(other.bytes()),
        };
        parts.iter().map(steps).fold(0, u64::saturating_add)
    }

    /// Checks a result against the tool's own output schema: exactly one `json` part, which fits. Without an output
    /// schema every result passes.
    ///
    /// # Errors
    /// With the kind `bad_result`, if it does not match.
    pub fn check_result(&self, parts: &[Content]) -> Result<(), CallError> {
        let Some(gate) = &self.results else { return Ok(()) };
        let mut values = parts.iter().filter_map(|part| match part {
            Content::Json { value } => Some(value.expose_raw()),
            Content::Text { .. } | Content::Blob { .. } | Content::Link { .. } => None,
        });
        let (Some(value), None) = (values.next(), values.next()) else {
            let message = "the tool has an output schema, so its result needs exactly one `json` part";
            return Err(CallError::new(ErrorKind::BadResult, message));
        };
        if gate.accepts_compact(value) {
            return Ok(());
        }
        gate.parse(value).map(drop).map_err(|violations| {
            let message = format!("the result does not match the tool's own output schema:\n{violations}");
            CallError::new(ErrorKind::BadResult, message)
        })
    }
}
