//! One tool of an MCP server, as the agent loop sees it.

use std::sync::Arc;
use std::time::Instant;

use fumehood_agent::registry::{Contract, Invocation, Spec, Stop, Tool as AgentTool};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::content::Content;
use fumehood_core::definition::Annotations;
use fumehood_core::gate::GateLimits;
use fumehood_core::result::{CallError, CallResult, Metadata};
use fumehood_mcp::{Remote, RemoteTool};

/// One tool of a server, as the loop sees it.
pub(crate) struct ServersTool {
    remote: Remote,
    foreign: Arc<str>,
    contract: Contract,
    /// The answer to every call, if nobody approved of the server as it is.
    refusal: Option<CallError>,
}

impl ServersTool {
    /// A tool of this server; `refusal` is the answer to every call, if there is one. An error in words, if it cannot be
    /// shown to a model.
    pub(crate) fn new(remote: &Remote, tool: RemoteTool, refusal: Option<CallError>) -> Result<Self, String> {
        let foreign = Arc::clone(&tool.foreign);
        let spec = if refusal.is_none() { as_described(tool) } else { in_quarantine(tool) };
        let contract = Contract::new(spec, GateLimits::default()).map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{error}{cause}")
        })?;
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

fn as_described(tool: RemoteTool) -> Spec {
    let parameters = tool.arguments_schema();
    let RemoteTool { name, description, annotations, digest, .. } = tool;
    // Cleaned by the contract, which also takes the tags of prompts out.
    let description = description.expose_raw_owned();
    Spec { name, description, parameters, annotations, digest: Some(digest) }
}

/// What a tool says about itself reaches no model before somebody has looked at it.
fn in_quarantine(tool: RemoteTool) -> Spec {
    Spec {
        description: "Can not be called now: an operator has to approve it first.".to_owned(),
        parameters: serde_json::json!({"type": "object", "additionalProperties": true}),
        annotations: Annotations::default(),
        ..as_described(tool)
    }
}

impl AgentTool for ServersTool {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn call(&self, invocation: Arc<Invocation>) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let started = Instant::now();
            let outcome = self.outcome(&invocation).await;
            let cost =
                Metadata { duration: started.elapsed(), deadline: self.remote.deadline(), ..Metadata::default() };
            let metadata = cost.of_outcome(&outcome);
            Ok(CallResult { id: invocation.id.clone(), tool: invocation.tool.clone(), outcome, metadata })
        })
    }
}
