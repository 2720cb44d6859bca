//! The tools of a host as a [`ToolProvider`] of the agent loop. Calls run in the sandbox.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use fumehood_agent::identity::ActorArguments;
use fumehood_agent::registry::{
    Contract, ContractError, Invocation, Partials, ProviderKind, Spec, Stop, Tool as AgentTool, ToolProvider,
};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::{Arguments, Call};
use fumehood_core::definition::Annotations;
use fumehood_core::event::{Level, Progress};
use fumehood_core::gate::Gate;
use fumehood_core::result::CallResult;
use fumehood_runtime::{Invocation as Running, Observer};

use crate::host::{Host, Tools};
use crate::tool::Tool;

/// The tools of a host, sorted by their names. The set follows components that are loaded and unloaded.
///
/// A tool that is loaded later and cannot be presented to a model is left out: see [`HostTools::left_out`].
pub struct HostTools {
    host: Host,
    actor_arguments: ActorArguments,
    view: ArcSwap<View>,
}

impl fmt::Debug for HostTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostTools").finish_non_exhaustive()
    }
}

/// The loop's view of one set of tools.
struct View {
    of: Arc<Tools>,
    tools: Vec<Arc<ComponentTool>>,
    left_out: Vec<ContractError>,
}

/// A tool of a component, as the loop sees it.
struct ComponentTool {
    host: Host,
    tool: Arc<Tool>,
    contract: Contract,
}

impl HostTools {
    /// Creates a provider of the tools of `host`, now and later.
    ///
    /// # Errors
    /// If a tool that is loaded now cannot be presented to a model.
    pub fn of(host: &Host) -> Result<Self, ContractError> {
        Self::without_arguments(host, ActorArguments::none())
    }

    /// Like [`HostTools::of`], and refuses tools with arguments of these names: they would let the model choose the
    /// actor.
    ///
    /// # Errors
    /// If a tool that is loaded now cannot be presented to a model, or has such an argument.
    pub fn without_arguments(host: &Host, actor_arguments: ActorArguments) -> Result<Self, ContractError> {
        let mut view = View::new(host, host.set(), &[], &actor_arguments);
        match view.left_out.pop() {
            Some(error) => Err(error),
            None => Ok(Self { host: host.clone(), actor_arguments, view: ArcSwap::from_pointee(view) }),
        }
    }

    /// Returns the reasons for tools of the host that are not presented to models.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        self.view().left_out.iter().map(ToString::to_string).collect()
    }

    /// Returns the view, and builds a new one if the host's set of tools has changed. Two callers may build it at the
    /// same time, with the same result.
    fn view(&self) -> Arc<View> {
        let (view, now) = (self.view.load_full(), self.host.set());
        if Arc::ptr_eq(&view.of, &now) {
            return view;
        }
        let view = Arc::new(View::new(&self.host, now, &view.tools, &self.actor_arguments));
        self.view.store(Arc::clone(&view));
        view
    }
}

impl View {
    /// Builds the view of a set of tools. Tools of the view before keep their contracts.
    fn new(host: &Host, of: Arc<Tools>, before: &[Arc<ComponentTool>], actor_arguments: &ActorArguments) -> Self {
        let (mut tools, mut left_out) = (Vec::new(), Vec::new());
        for tool in of.in_order() {
            match before.iter().find(|known| Arc::ptr_eq(&known.tool, &tool)) {
                Some(known) => tools.push(Arc::clone(known)),
                None => match ComponentTool::new(host, tool, actor_arguments) {
                    Ok(tool) => tools.push(Arc::new(tool)),
                    Err(error) => left_out.push(error),
                },
            }
        }
        Self { of, tools, left_out }
    }
}

impl ToolProvider for HostTools {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Component
    }

    fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        self.view().tools.iter().map(|tool| Arc::clone(tool) as _).collect()
    }

    fn find(&self, name: &str) -> Option<Arc<dyn AgentTool>> {
        let view = self.view();
        let position = view.tools.binary_search_by(|tool| tool.contract().name().cmp(name)).ok()?;
        view.tools.get(position).map(|tool| Arc::clone(tool) as _)
    }
}

impl ComponentTool {
    fn new(host: &Host, tool: Arc<Tool>, actor_arguments: &ActorArguments) -> Result<Self, ContractError> {
        let contract = match tool.is_approved() {
            true => Contract::with_gate(as_described(&tool), tool.arguments_gate(), actor_arguments)?,
            false => {
                let spec = in_quarantine(&tool);
                let gate = Gate::for_arguments(&spec.parameters, host.gate_limits().clone());
                let refused = |source| ContractError::Schema { tool: spec.name.clone(), source };
                let gate = Arc::new(gate.map_err(refused)?);
                Contract::with_gate(spec, gate, &ActorArguments::none())?
            }
        };
        Ok(Self { host: host.clone(), tool, contract })
    }
}

fn as_described(tool: &Tool) -> Spec {
    let definition = tool.definition();
    Spec {
        name: tool.full_name().to_owned(),
        // Raw, because the contract escapes hidden characters and the tags of prompts.
        description: definition.description.expose_raw().clone(),
        parameters: definition.input_schema.expose_raw().clone(),
        annotations: definition.annotations,
        digest: Some(tool.component().digest()),
    }
}

/// Describes a tool without text of its own, because no model may read that before an operator approved it. It accepts
/// any arguments, because the result is always that it needs approval.
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

    /// Always true: the state was granted or not when the component was loaded, and the sandbox enforces that.
    fn needs_state(&self) -> bool {
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
        Box::pin(async move { Ok(self.host.call_observed(call, Some(watcher), None, None).await) })
    }
}

/// An observer that forwards the progress of a call to the agent loop.
struct ForAgent(Partials);

impl Observer for ForAgent {
    fn log(&self, _call: &Running, _level: Level, _message: &str) {}

    fn progress(&self, _call: &Running, progress: Progress) {
        self.0.send(progress);
    }
}
