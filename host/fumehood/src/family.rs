//! The tools of a host as a registry of the agent loop: what a model calls runs in the sandbox.

use std::sync::Arc;

use fumehood_agent::registry::{
    Contract, ContractError, Family, Invocation, Spec, Stop, Tool as AgentTool, ToolFamily,
};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::{Arguments, Call};
use fumehood_core::definition::Annotations;
use fumehood_core::gate::GateLimits;
use fumehood_core::result::CallResult;

use crate::host::Host;
use crate::tool::Tool;

/// The tools that were loaded when this was made, in the order of their names.
pub struct Components {
    tools: Vec<Arc<dyn AgentTool>>,
}

/// One tool of a component, as the loop sees it.
struct ComponentTool {
    host: Host,
    contract: Contract,
}

impl Components {
    /// The tools that `host` holds now.
    ///
    /// # Errors
    /// If one of them cannot be shown to a model: its arguments want to say on whose behalf it runs, which only the host
    /// may say.
    pub fn of(host: &Host) -> Result<Self, ContractError> {
        let tools = host.tools();
        let tools = tools.iter().map(|tool| ComponentTool::new(host, tool).map(|tool| Arc::new(tool) as _));
        Ok(Self { tools: tools.collect::<Result<_, _>>()? })
    }
}

impl ToolFamily for Components {
    fn family(&self) -> Family {
        Family::Component
    }

    fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        self.tools.clone()
    }

    fn find(&self, name: &str) -> Option<Arc<dyn AgentTool>> {
        let position = self.tools.binary_search_by(|tool| tool.contract().name().cmp(name)).ok()?;
        self.tools.get(position).cloned()
    }
}

impl ComponentTool {
    fn new(host: &Host, tool: &Tool) -> Result<Self, ContractError> {
        let spec = if tool.is_approved() { as_described(tool) } else { in_quarantine(tool) };
        let contract = Contract::new(spec, GateLimits::default())?;
        Ok(Self { host: host.clone(), contract })
    }
}

fn as_described(tool: &Tool) -> Spec {
    let definition = tool.definition();
    Spec {
        name: tool.full_name().to_owned(),
        description: definition.description.clone(),
        parameters: definition.input_schema.clone(),
        annotations: definition.annotations,
        digest: Some(tool.component().digest()),
    }
}

/// What a tool says about itself reaches no model before somebody has looked at it. Any arguments do, because the answer
/// is the same: that it needs approval.
fn in_quarantine(tool: &Tool) -> Spec {
    Spec {
        description: "Can not be called now: an operator has to approve it first.".to_owned(),
        parameters: serde_json::json!({"type": "object", "additionalProperties": true}),
        annotations: Annotations::default(),
        ..as_described(tool)
    }
}

impl AgentTool for ComponentTool {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Whether it may see the state was granted when it was loaded, and the sandbox keeps to that.
    fn wants_state(&self) -> bool {
        true
    }

    fn call(&self, invocation: Arc<Invocation>) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let call = Call {
            id: invocation.id.clone(),
            tool: invocation.tool.clone(),
            arguments: Arguments::Value(invocation.arguments.clone()),
            actor: invocation.actor.clone(),
            state: invocation.state.clone(),
            limits: None,
        };
        Box::pin(async move { Ok(self.host.call_for_agent(call, invocation.partials.clone()).await) })
    }
}
