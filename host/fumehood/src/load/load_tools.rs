//! The tools of a component that is being loaded, with their compiled schemas.

use std::sync::Arc;

use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallError;
use fumehood_core::digest::Digest;
use fumehood_core::flow::ToolFlow;
use fumehood_core::schema::gate::{Gate, GateLimits, SchemaError};
use fumehood_core::tool::Tool;
use fumehood_core::tool::definition::{Annotations, ToolDefinition};
use fumehood_core::tool::name::{Namespace, ToolName};
use fumehood_core::tool::resource::{READ_RESOURCE, ResourceDefinition, ToolResources};
use fumehood_runtime::{Component, Dialect};
use serde_json::json;

use super::LoadTerms;
use super::error::LoadError;
use super::loaded_component::LoadedComponent;
use crate::lock::approval_check::ApprovalCheck;

/// Maximum size of the call and the result that a hook is handed, in bytes.
const MAX_HOOK_INPUT_BYTES: usize = 64 << 20;

/// The properties that all tools of a component share.
struct ToolLoader<'a> {
    name: &'a Namespace,
    digest: Digest,
    arguments_limits: GateLimits,
    results_limits: GateLimits,
    powers: Arc<[String]>,
    grant: Digest,
    flow: ToolFlow,
    refusal: Option<CallError>,
}

impl ToolLoader<'_> {
    fn load(&self, definition: &ToolDefinition) -> Result<Arc<Tool>, LoadError> {
        let input = definition.input_schema.expose_raw();
        let arguments = Gate::for_arguments(input, self.arguments_limits.clone())
            .map_err(|error| self.schema_error(definition, "input", error))?;
        // Callers read what the gate takes; approvals are about what the component says.
        let input_schema = arguments.present(input).into();
        let presented = ToolDefinition { input_schema, ..definition.clone() };
        let mut tool = Tool::new(presented, arguments).in_namespace(self.name);
        if let Some(schema) = &definition.output_schema {
            let results = Gate::for_results(schema.expose_raw(), self.results_limits.clone())
                .map_err(|error| self.schema_error(definition, "output", error))?;
            tool = tool.result_gate(Some(results));
        }
        let tool = tool.identified_by(self.digest).granted(Arc::clone(&self.powers)).grant_digest(self.grant);
        Ok(Arc::new(tool.with_flow(self.flow).withheld(self.refusal.clone())))
    }

    fn schema_error(&self, definition: &ToolDefinition, which: &'static str, source: SchemaError) -> LoadError {
        let tool = definition.name.clone();
        LoadError::Schema { name: self.name.clone(), tool, which, source: Box::new(source) }
    }
}

/// Creates the tools of a loaded component, and compiles their schemas.
pub(crate) fn load_tools(
    name: &Namespace,
    component: &Component,
    terms: LoadTerms,
    gate_limits: &GateLimits,
    approval: Option<ApprovalCheck>,
) -> Result<LoadedComponent, LoadError> {
    let LoadTerms { limits, grant, .. } = &terms;
    let arguments_limits = match limits.string {
        // What a hook is handed was checked elsewhere, and is as large as results are.
        _ if matches!(component.dialect(), Dialect::Hook(_)) => {
            gate_limits.clone().with_string_bytes(MAX_HOOK_INPUT_BYTES)
        }
        Some(bytes) => gate_limits.clone().with_string_bytes(bytes),
        None => gate_limits.clone(),
    };
    let loader = ToolLoader {
        name,
        digest: component.digest(),
        arguments_limits,
        results_limits: results_limits(gate_limits, limits),
        powers: grant.phrases().into(),
        grant: Digest::of(grant.lines(None).join("\n").as_bytes()),
        flow: ToolFlow::from_grant(grant),
        refusal: approval.as_ref().and_then(|approval| approval.refusal(name.as_str())),
    };
    let tools = component.definitions().iter().map(|definition| loader.load(definition));
    let tools = tools.collect::<Result<_, LoadError>>()?;
    let reader = match offered_resources(component, grant.page_origins().map(<[String]>::to_vec)) {
        Some(resources) => {
            let tool = loader.load(&reader_definition(&resources)?)?;
            Some(Arc::new(Tool::clone(&tool).reading(resources)))
        }
        None => None,
    };
    let keeps_values = grant.key_value().is_some();
    Ok(LoadedComponent { component: component.clone(), tools, reader, terms, approval, keeps_values })
}

/// Returns the resources that clients are offered, without pages unless the operator allows them; `None` if there are none.
fn offered_resources(component: &Component, page_origins: Option<Vec<String>>) -> Option<ToolResources> {
    let is_offered = |resource: &&ResourceDefinition| page_origins.is_some() || !resource.is_page();
    let definitions: Vec<_> = component.resources().iter().filter(is_offered).cloned().collect();
    (!definitions.is_empty()).then_some(ToolResources { definitions, page_origins })
}

/// Returns the definition of the tool that stands for reading these resources.
fn reader_definition(resources: &ToolResources) -> Result<ToolDefinition, LoadError> {
    let uris: Vec<&str> = resources.definitions.iter().map(|resource| resource.uri.as_str()).collect();
    let schema =
        json!({"type": "object", "properties": {"uri": {"type": "string", "enum": uris}}, "required": ["uri"]});
    Ok(ToolDefinition {
        name: ToolName::parse(READ_RESOURCE).map_err(|reason| LoadError::Name { reason })?,
        export: None,
        title: None,
        description: "Reads a resource of the component.".into(),
        input_schema: schema.into(),
        output_schema: None,
        annotations: Annotations::default(),
        mcp_members: None,
    })
}

/// Returns the limits of results. A result, and each string in it, may have as many bytes as the limits of the call
/// allow: the lower limits of arguments only protect tools.
fn results_limits(gate: &GateLimits, limits: &Limits) -> GateLimits {
    let bytes = limits.output.max(gate.document_bytes);
    GateLimits { document_bytes: bytes, string_bytes: bytes, ..gate.clone() }
}
