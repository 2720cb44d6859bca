//! The tools of a host as a registry of the agent loop: what a model calls runs in the sandbox.

use std::sync::Arc;

use fumehood_agent::registry::{
    Contract, ContractError, Family, Invocation, Partials, Spec, Stop, Tool as AgentTool, ToolFamily,
};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::{Arguments, Call};
use fumehood_core::event::{Level, Progress};
use fumehood_core::gate::GateLimits;
use fumehood_core::result::CallResult;
use fumehood_runtime::{Invocation as Running, Observer};

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
        let definition = tool.definition();
        let spec = Spec {
            name: tool.full_name().to_owned(),
            description: definition.description.clone(),
            parameters: definition.input_schema.clone(),
            annotations: definition.annotations,
            digest: Some(tool.component().digest()),
        };
        let contract = Contract::new(spec, GateLimits::default())?;
        Ok(Self { host: host.clone(), contract })
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
        let watcher = Arc::new(ForAgent(invocation.partials.clone()));
        Box::pin(async move { Ok(self.host.call_observed(call, Some(watcher), None).await) })
    }
}

/// Tells the agent loop of a call's progress.
struct ForAgent(Partials);

impl Observer for ForAgent {
    fn log(&self, _call: &Running, _level: Level, _message: &str) {}

    fn progress(&self, _call: &Running, progress: Progress) {
        self.0.send(progress);
    }
}
