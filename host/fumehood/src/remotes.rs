//! The tools of MCP servers as a registry of the agent loop: the third family, behind the same gate.

use std::sync::Arc;
use std::time::Instant;

use fumehood_agent::registry::{Contract, Family, Invocation, Spec, Stop, Tool as AgentTool, ToolFamily};
use fumehood_core::approval::{Approval, Parts};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::content::Content;
use fumehood_core::definition::Annotations;
use fumehood_core::gate::GateLimits;
use fumehood_core::result::{CallError, CallResult, Metadata};
use fumehood_mcp::{ConnectError, Remote, RemoteTool};

use crate::pinned::Pinned;

/// How the tools of servers are called, for approvals.
const CONTRACT: &str = "mcp";

/// The tools that servers had when this was made, in the order of their names.
#[derive(Default)]
pub struct Remotes {
    tools: Vec<Arc<dyn AgentTool>>,
    refused: Vec<String>,
    servers: Vec<Remote>,
}

/// One tool of a server, as the loop sees it.
struct ServersTool {
    remote: Remote,
    foreign: Arc<str>,
    contract: Contract,
    /// The answer to every call, if nobody approved of the server as it is.
    refusal: Option<CallError>,
}

impl Remotes {
    /// Connects to a server and takes its tools. One whose name or schema is not acceptable is left out, and
    /// [`Remotes::refused`] says why.
    ///
    /// # Errors
    /// If the server cannot be used. What was taken before stays.
    pub async fn add(&mut self, remote: &Remote) -> Result<(), ConnectError> {
        let tools = remote.tools().await?;
        self.take(remote, tools, None);
        Ok(())
    }

    /// The same for a server whose tools have to be what was approved, as those of a component. `grants` says what stands
    /// behind it, one line each, such as the program that is started. If it is not what was approved, a model is shown the
    /// names of its tools and nothing else, and calls of them end with `needs_approval`; nothing is asked of the server.
    ///
    /// # Errors
    /// As for [`Remotes::add`].
    pub async fn add_pinned(
        &mut self,
        remote: &Remote,
        grants: Vec<String>,
        approved: Option<&Approval>,
    ) -> Result<Pinned, ConnectError> {
        let tools = remote.tools().await?;
        let definitions: Vec<_> = tools.iter().filter_map(|tool| tool.definition().ok()).collect();
        let pinned = Pinned::compare(Parts::new(None, CONTRACT, grants, &definitions), approved);
        self.take(remote, tools, pinned.refusal(remote.name().as_str()));
        Ok(pinned)
    }

    fn take(&mut self, remote: &Remote, tools: Vec<RemoteTool>, refusal: Option<CallError>) {
        self.refused.extend(remote.refused());
        for tool in tools {
            match ServersTool::new(remote, tool, refusal.clone()) {
                Ok(tool) => self.tools.push(Arc::new(tool)),
                Err(why) => self.refused.push(why),
            }
        }
        self.tools.sort_by(|a, b| a.contract().name().cmp(b.contract().name()));
        self.servers.push(remote.clone());
    }

    /// Tools that servers offered and that were not taken, each with the reason.
    #[must_use]
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Ends the connections to all servers, and the programs behind them, in good order.
    pub async fn close(&self) {
        for server in &self.servers {
            server.close().await;
        }
    }
}

impl ToolFamily for Remotes {
    fn family(&self) -> Family {
        Family::Mcp
    }

    fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        self.tools.clone()
    }

    fn find(&self, name: &str) -> Option<Arc<dyn AgentTool>> {
        let position = self.tools.binary_search_by(|tool| tool.contract().name().cmp(name)).ok()?;
        self.tools.get(position).cloned()
    }
}

impl ServersTool {
    fn new(remote: &Remote, tool: RemoteTool, refusal: Option<CallError>) -> Result<Self, String> {
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
            let bytes = outcome.as_ref().map_or(0, |parts| parts.iter().map(Content::bytes).sum());
            let (duration, deadline) = (started.elapsed(), self.remote.deadline());
            let metadata = Metadata { bytes, duration, deadline, ..Metadata::default() };
            Ok(CallResult { id: invocation.id.clone(), tool: invocation.tool.clone(), outcome, metadata })
        })
    }
}
