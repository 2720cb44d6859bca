//! The tools of MCP servers as a registry of the agent loop: the third family, behind the same gate.

use std::fmt;
use std::sync::Arc;

use fumehood_agent::identity::ActorArguments;
use fumehood_agent::registry::{ProviderKind, Tool as AgentTool, ToolProvider};
use fumehood_core::approval::{Approval, Manifest};
use fumehood_core::result::CallError;
use fumehood_mcp::{ConnectError, Remote, RemoteTool, ToolNotice};

use crate::approval_check::ApprovalCheck;
use crate::mcp_tool::{McpTool, check};

/// The calling convention of servers' tools, as approvals name it.
const CONTRACT: &str = "mcp";

/// The tools that servers had when this was made, in the order of their names.
pub struct McpTools {
    tools: Vec<Arc<dyn AgentTool>>,
    refused: Vec<ToolNotice>,
    unchecked: Vec<ToolNotice>,
    servers: Vec<Remote>,
    actor_arguments: ActorArguments,
}

impl fmt::Debug for McpTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTools").finish_non_exhaustive()
    }
}

impl Default for McpTools {
    /// No servers; arguments of their tools may have any name.
    fn default() -> Self {
        Self::without_arguments(ActorArguments::none())
    }
}

impl McpTools {
    /// No servers yet, for an operator who wants no tool to have arguments of these names: they would let the model choose on
    /// whose behalf it runs. A tool that has one is left out.
    #[must_use]
    pub fn without_arguments(actor_arguments: ActorArguments) -> Self {
        let (refused, unchecked) = (Vec::new(), Vec::new());
        Self { tools: Vec::new(), refused, unchecked, servers: Vec::new(), actor_arguments }
    }

    /// Connects to a server and takes its tools. One whose name or schema is not acceptable is left out, and
    /// [`McpTools::refused`] says why.
    ///
    /// # Errors
    /// If the server cannot be used. What was taken before stays.
    pub async fn add(&mut self, remote: &Remote) -> Result<(), ConnectError> {
        let tools = self.acceptable(remote.tools().await?);
        self.take(remote, tools, None);
        Ok(())
    }

    /// The same for a server whose tools have to be what was approved, as those of a component. `grants` says what stands
    /// behind it, one line each, such as the program that is started. If it is not what was approved, a model is shown the
    /// names of its tools and nothing else, and calls of them end with `needs_approval`; nothing is asked of the server.
    ///
    /// # Errors
    /// As for [`McpTools::add`].
    pub async fn add_pinned(
        &mut self,
        remote: &Remote,
        grants: Vec<String>,
        approved: Option<&Approval>,
    ) -> Result<ApprovalCheck, ConnectError> {
        // Nobody approves of what would not be taken.
        let tools = self.acceptable(remote.tools().await?);
        let definitions: Vec<_> = tools.iter().filter_map(|tool| tool.definition().ok()).collect();
        let pinned = ApprovalCheck::compare(Manifest::new(None, CONTRACT, grants, &definitions), approved);
        self.take(remote, tools, pinned.refusal(remote.name().as_str()));
        Ok(pinned)
    }

    /// The tools that can be taken. Of the others a notice is kept.
    fn acceptable(&mut self, tools: Vec<RemoteTool>) -> Vec<RemoteTool> {
        let mut acceptable = Vec::new();
        for tool in tools {
            match check(&tool, &self.actor_arguments) {
                Ok(()) => acceptable.push(tool),
                Err(why) => self.refused.push(why),
            }
        }
        acceptable
    }

    fn take(&mut self, remote: &Remote, tools: Vec<RemoteTool>, refusal: Option<CallError>) {
        self.refused.extend(remote.rejected_tools());
        self.unchecked.extend(remote.unchecked_schemas());
        for tool in tools {
            match McpTool::new(remote, tool, refusal.clone(), &self.actor_arguments) {
                Ok(tool) => self.tools.push(Arc::new(tool)),
                Err(why) => self.refused.push(why),
            }
        }
        self.tools.sort_by(|a, b| a.contract().name().cmp(b.contract().name()));
        self.servers.push(remote.clone());
    }

    /// Tools that servers offered and that were not taken, each with the reason.
    #[must_use]
    pub fn refused(&self) -> &[ToolNotice] {
        &self.refused
    }

    /// Parts of servers' schemas that are not checked: see [`Remote::unchecked_schemas`].
    #[must_use]
    pub fn unchecked(&self) -> &[ToolNotice] {
        &self.unchecked
    }

    /// Ends the connections to all servers, and the programs behind them, in good order.
    pub async fn close(&self) {
        for server in &self.servers {
            server.close().await;
        }
    }
}

impl ToolProvider for McpTools {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Mcp
    }

    fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        self.tools.clone()
    }

    fn find(&self, name: &str) -> Option<Arc<dyn AgentTool>> {
        let position = self.tools.binary_search_by(|tool| tool.contract().name().cmp(name)).ok()?;
        self.tools.get(position).cloned()
    }
}
