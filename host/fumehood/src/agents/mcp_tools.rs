//! The tools of MCP servers as a [`ToolProvider`], behind the same gate as other tools.

use std::fmt;
use std::sync::Arc;

use fumehood_agent::identity::ActorArguments;
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::flow::ToolFlow;
use fumehood_core::policy::approval::Manifest;
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::{Changes, PendingCall, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall};
use fumehood_mcp::{ConnectError, Remote, RemoteTool, ToolNotice};

use crate::lock::approval_check::{ApprovalCheck, LockedApproval};

/// The calling convention of servers' tools, as approvals name it.
const CONTRACT: &str = "mcp";

/// The powers of servers' tools: nothing is known of them here.
const POWERS: &str = "do whatever its MCP server can, outside of the sandbox";

/// The tools that servers had when they were added, sorted by their names.
pub struct McpTools {
    tools: Vec<ServerTool>,
    refused: Vec<ToolNotice>,
    unchecked: Vec<ToolNotice>,
    servers: Vec<Remote>,
    checks: Vec<(Namespace, ApprovalCheck)>,
    actor_arguments: ActorArguments,
    revision: Revision,
}

/// A tool and the server that runs it.
struct ServerTool {
    tool: Arc<Tool>,
    server: Remote,
}

impl fmt::Debug for McpTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTools").finish_non_exhaustive()
    }
}

impl Default for McpTools {
    /// Creates a provider without servers; arguments of their tools may have any name.
    fn default() -> Self {
        Self::without_arguments(ActorArguments::none())
    }
}

impl McpTools {
    /// Creates a provider without servers that leaves out tools with arguments of these names: they would let the model
    /// choose the actor.
    #[must_use]
    pub fn without_arguments(actor_arguments: ActorArguments) -> Self {
        let (refused, unchecked) = (Vec::new(), Vec::new());
        Self {
            tools: Vec::new(),
            refused,
            unchecked,
            servers: Vec::new(),
            checks: Vec::new(),
            actor_arguments,
            revision: Revision::default(),
        }
    }

    /// Connects to a server and adds its tools. A tool whose name or schema is not acceptable is left out, with a
    /// notice in [`McpTools::refused`].
    ///
    /// # Errors
    /// If the server cannot be used. The tools of other servers are unchanged.
    pub async fn add(&mut self, remote: &Remote) -> Result<(), ConnectError> {
        let tools = self.acceptable(remote.tools().await?);
        let tools = tools.into_iter().map(|RemoteTool { tool, .. }| Tool::clone(&tool).with_flow(ToolFlow::UNAPPROVED));
        self.take(remote, tools.collect(), None);
        Ok(())
    }

    /// Like [`McpTools::add`], for a server whose tools have to be what was approved, as those of a component. `grants`
    /// has one line for each fact about the server itself, such as the program that is started. If the server is not
    /// what was approved, a model sees only the names of its tools, and calls of them fail with `needs_approval`
    /// without a request to the server.
    ///
    /// # Errors
    /// As for [`McpTools::add`].
    pub async fn add_pinned(
        &mut self,
        remote: &Remote,
        grants: Vec<String>,
        approved: impl Into<LockedApproval>,
    ) -> Result<ApprovalCheck, ConnectError> {
        // The approval covers only tools that can be used.
        let tools = self.acceptable(remote.tools().await?);
        let definitions: Vec<_> = tools.iter().map(|tool| tool.definition.clone()).collect();
        let pinned = ApprovalCheck::compare(Manifest::new(None, CONTRACT, grants, &definitions), &approved.into());
        let tools = tools.into_iter().map(|RemoteTool { tool, .. }| Tool::clone(&tool)).collect();
        self.take(remote, tools, pinned.refusal(remote.name().as_str()));
        self.checks.push((remote.name().clone(), pinned.clone()));
        Ok(pinned)
    }

    /// Returns the tools that can be used, and stores a notice about each of the others.
    fn acceptable(&mut self, tools: Vec<RemoteTool>) -> Vec<RemoteTool> {
        let mut acceptable = Vec::new();
        for tool in tools {
            match self.actor_arguments.check(tool.tool.full_name(), tool.tool.input_schema()) {
                Ok(()) => acceptable.push(tool),
                Err(why) => self.refused.push(ToolNotice::new(&tool.foreign, why.to_string())),
            }
        }
        acceptable
    }

    fn take(&mut self, server: &Remote, tools: Vec<Tool>, refusal: Option<CallError>) {
        self.refused.extend(server.rejected_tools());
        self.unchecked.extend(server.unchecked_schemas());
        let powers: Arc<[String]> = Arc::from([POWERS.to_owned()]);
        for tool in tools {
            let tool = Arc::new(tool.granted(Arc::clone(&powers)).withheld(refusal.clone()));
            self.tools.push(ServerTool { tool, server: server.clone() });
        }
        self.tools.sort_by(|a, b| a.tool.full_name().cmp(b.tool.full_name()));
        self.servers.push(server.clone());
        self.revision.advance();
    }

    /// Returns the tools of servers that are left out, each with the reason.
    #[must_use]
    pub fn refused(&self) -> &[ToolNotice] {
        &self.refused
    }

    /// Returns the parts of servers' schemas that are not checked: see [`Remote::unchecked_schemas`].
    #[must_use]
    pub fn unchecked(&self) -> &[ToolNotice] {
        &self.unchecked
    }

    /// Returns the comparisons of servers with their approvals, by the names of the servers.
    #[must_use]
    pub fn approval_checks(&self) -> &[(Namespace, ApprovalCheck)] {
        &self.checks
    }

    /// Closes the connections to all servers, and ends the programs behind them.
    pub async fn close(&self) {
        for server in &self.servers {
            server.close().await;
        }
    }
}

impl McpTools {
    fn server_tool(&self, name: &str) -> Option<&ServerTool> {
        let position = self.tools.binary_search_by(|known| known.tool.full_name().cmp(name)).ok()?;
        self.tools.get(position)
    }
}

impl ToolProvider for McpTools {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Mcp
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        self.tools.iter().map(|known| Arc::clone(&known.tool)).collect()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.server_tool(name).map(|known| Arc::clone(&known.tool))
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            if let Err(error) = self.actor_arguments.check_call(&call) {
                return Ok(PendingCall::Validated(call, context).refuse(error));
            }
            let tool = call.tool().full_name().to_owned();
            match self.server_tool(&tool).filter(|known| Arc::ptr_eq(&known.tool, call.tool())) {
                Some(known) => Ok(known.server.call(call, context).await),
                None => {
                    let (outcome, metadata) = (Err(CallError::replaced()), Metadata::default());
                    Ok(CallResult { id: context.id, tool, outcome, metadata })
                }
            }
        })
    }

    fn changes(&self) -> Changes {
        self.revision.subscribe()
    }
}
