//! The tools of MCP servers as a registry of the agent loop: the third family, behind the same gate.

use std::sync::Arc;
use std::time::Instant;

use fumehood_agent::registry::{Contract, Family, Invocation, Spec, Stop, Tool as AgentTool, ToolFamily};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::content::Content;
use fumehood_core::gate::GateLimits;
use fumehood_core::result::{CallResult, Metadata};
use fumehood_mcp::{ConnectError, Remote, RemoteTool};

/// The tools that servers had when this was made, in the order of their names.
#[derive(Default)]
pub struct Remotes {
    tools: Vec<Arc<dyn AgentTool>>,
    refused: Vec<String>,
}

/// One tool of a server, as the loop sees it.
struct ServersTool {
    remote: Remote,
    foreign: Arc<str>,
    contract: Contract,
}

impl Remotes {
    /// Connects to a server and takes its tools. One whose name or schema is not acceptable is left out, and
    /// [`Remotes::refused`] says why.
    ///
    /// # Errors
    /// If the server cannot be used. What was taken before stays.
    pub async fn add(&mut self, remote: &Remote) -> Result<(), ConnectError> {
        let tools = remote.tools().await?;
        self.refused.extend(remote.refused());
        for tool in tools {
            match ServersTool::new(remote, tool) {
                Ok(tool) => self.tools.push(Arc::new(tool)),
                Err(why) => self.refused.push(why),
            }
        }
        self.tools.sort_by(|a, b| a.contract().name().cmp(b.contract().name()));
        Ok(())
    }

    /// Tools that servers offered and that were not taken, each with the reason.
    #[must_use]
    pub fn refused(&self) -> &[String] {
        &self.refused
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
    fn new(remote: &Remote, tool: RemoteTool) -> Result<Self, String> {
        let RemoteTool { name, foreign, description, input_schema, annotations, digest, .. } = tool;
        let spec = Spec { name, description, parameters: input_schema, annotations, digest: Some(digest) };
        let contract = Contract::new(spec, GateLimits::default()).map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{error}{cause}")
        })?;
        Ok(Self { remote: remote.clone(), foreign, contract })
    }
}

impl AgentTool for ServersTool {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn call(&self, invocation: Arc<Invocation>) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let started = Instant::now();
            let outcome = self.remote.call(&self.foreign, invocation.arguments.clone()).await;
            let bytes = outcome.as_ref().map_or(0, |parts| parts.iter().map(Content::bytes).sum());
            let metadata = Metadata { bytes, duration: started.elapsed(), ..Metadata::default() };
            Ok(CallResult { id: invocation.id.clone(), tool: invocation.tool.clone(), outcome, metadata })
        })
    }
}
