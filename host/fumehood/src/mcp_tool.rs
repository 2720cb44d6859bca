//! A tool of an MCP server, as the agent loop sees it.

use std::sync::Arc;
use std::time::Instant;

use fumehood_agent::identity::ActorArguments;
use fumehood_agent::registry::{Contract, ContractError, Invocation, Spec, Stop, Tool as AgentTool};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::content::Content;
use fumehood_core::definition::Annotations;
use fumehood_core::gate::GateLimits;
use fumehood_core::result::{CallError, CallResult, Metadata};
use fumehood_mcp::{Remote, RemoteTool, ToolNotice};

/// A tool of a server, with its contract for the loop.
pub(crate) struct McpTool {
    remote: Remote,
    foreign: Arc<str>,
    contract: Contract,
    /// The error for every call if the server is not what was approved.
    refusal: Option<CallError>,
}

impl McpTool {
    /// Creates a tool of this server; `refusal` is the error for every call, if there is one.
    ///
    /// # Errors
    /// If it cannot be presented to a model, or has an argument that the operator forbids.
    pub(crate) fn new(
        remote: &Remote,
        tool: RemoteTool,
        refusal: Option<CallError>,
        actor_arguments: &ActorArguments,
    ) -> Result<Self, ToolNotice> {
        let foreign = Arc::clone(&tool.foreign);
        let contract = contract(tool, refusal.is_some(), actor_arguments);
        let contract = contract.map_err(|error| ToolNotice::new(&foreign, error.to_string()))?;
        Ok(Self { remote: remote.clone(), foreign, contract, refusal })
    }

    async fn outcome(&self, invocation: &Invocation) -> Result<Vec<Content>, CallError> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let partials = invocation.partials.clone();
        let listener = Arc::new(move |progress| partials.send(progress));
        self.remote.call_observed(&self.foreign, invocation.arguments.clone(), Some(listener)).await
    }
}

/// Checks that a tool can be used once its server is approved.
///
/// # Errors
/// If it cannot be presented to a model, or has an argument that the operator forbids.
pub(crate) fn check(tool: &RemoteTool, actor_arguments: &ActorArguments) -> Result<(), ToolNotice> {
    let contract = contract(tool.clone(), false, actor_arguments);
    contract.map(drop).map_err(|error| ToolNotice::new(&tool.foreign, error.to_string()))
}

/// Creates the contract of a tool. One in quarantine has no text of its own, because no model may read that before an
/// operator approved it.
fn contract(
    tool: RemoteTool,
    in_quarantine: bool,
    actor_arguments: &ActorArguments,
) -> Result<Contract, ContractError> {
    let parameters = tool.parameters();
    let RemoteTool { name, description, arguments, annotations, digest, .. } = tool;
    // Raw, because the contract escapes hidden characters and the tags of prompts.
    let description = description.expose_raw_owned();
    let spec = Spec { name, description, parameters, annotations, digest: Some(digest) };
    if !in_quarantine {
        return Contract::with_gate(spec, arguments, actor_arguments);
    }
    let spec = Spec {
        description: "Can not be called now: an operator has to approve it first.".to_owned(),
        parameters: serde_json::json!({"type": "object", "additionalProperties": true}),
        annotations: Annotations::default(),
        ..spec
    };
    Contract::new(spec, GateLimits::default())
}

impl AgentTool for McpTool {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn call(&self, invocation: Arc<Invocation>) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let started = Instant::now();
            let outcome = self.outcome(&invocation).await;
            let cost =
                Metadata { duration: started.elapsed(), deadline: self.remote.deadline(), ..Metadata::default() };
            let metadata = cost.with_outcome(&outcome);
            Ok(CallResult { id: invocation.id.clone(), tool: invocation.tool.clone(), outcome, metadata })
        })
    }
}
