//! The tools of a component that is being loaded, with their compiled schemas.

use std::sync::Arc;

use fumehood_core::call::limits::Limits;
use fumehood_core::digest::Digest;
use fumehood_core::flow::ToolFlow;
use fumehood_core::policy::permission::Grant;
use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::tool::Tool;
use fumehood_core::tool::definition::ToolDefinition;
use fumehood_core::tool::name::Namespace;
use fumehood_runtime::{Component, Dialect};

use super::error::LoadError;
use super::loaded_component::LoadedComponent;
use crate::lock::approval_check::ApprovalCheck;

/// Maximum size of the call and the result that a hook is handed, in bytes.
const MAX_HOOK_INPUT_BYTES: usize = 64 << 20;

/// Creates the tools of a loaded component, and compiles their schemas.
pub(crate) fn load_tools(
    name: &Namespace,
    component: &Component,
    limits: Limits,
    gate_limits: &GateLimits,
    approval: Option<ApprovalCheck>,
    grant: &Grant,
) -> Result<LoadedComponent, LoadError> {
    let arguments_limits = match limits.string {
        // What a hook is handed was checked elsewhere, and is as large as results are.
        _ if matches!(component.dialect(), Dialect::Hook(_)) => {
            gate_limits.clone().with_string_bytes(MAX_HOOK_INPUT_BYTES)
        }
        Some(bytes) => gate_limits.clone().with_string_bytes(bytes),
        None => gate_limits.clone(),
    };
    let (powers, flow): (Arc<[String]>, _) = (grant.phrases().into(), ToolFlow::from_grant(grant));
    let keeps_values = grant.key_value().is_some();
    let grant = Digest::of(grant.lines(None).join("\n").as_bytes());
    let refusal = approval.as_ref().and_then(|approval| approval.refusal(name.as_str()));
    let load_tool = |definition: &ToolDefinition| {
        let refused = |which| {
            let (name, tool) = (name.clone(), definition.name.clone());
            move |source| LoadError::Schema { name, tool, which, source: Box::new(source) }
        };
        let arguments = Gate::for_arguments(definition.input_schema.expose_raw(), arguments_limits.clone())
            .map_err(refused("input"))?;
        let results = definition.output_schema.as_ref().map(|schema| {
            Gate::for_results(schema.expose_raw(), results_limits(gate_limits, &limits)).map_err(refused("output"))
        });
        // Callers read what the gate takes; approvals are about what the component says.
        let input_schema = arguments.present(definition.input_schema.expose_raw()).into();
        let presented = ToolDefinition { input_schema, ..definition.clone() };
        let tool = Tool::new(presented, arguments).in_namespace(name).result_gate(results.transpose()?);
        let tool = tool.identified_by(component.digest()).granted(Arc::clone(&powers)).grant_digest(grant);
        let tool = tool.with_flow(flow);
        Ok(Arc::new(tool.withheld(refusal.clone())))
    };
    let tools = component.definitions().iter().map(load_tool).collect::<Result<_, LoadError>>()?;
    Ok(LoadedComponent { component: component.clone(), tools, limits, approval, keeps_values })
}

/// Returns the limits of results. A result, and each string in it, may have as many bytes as the limits of the call
/// allow: the lower limits of arguments only protect tools.
fn results_limits(gate: &GateLimits, limits: &Limits) -> GateLimits {
    let bytes = limits.output.max(gate.document_bytes);
    GateLimits { document_bytes: bytes, string_bytes: bytes, ..gate.clone() }
}
