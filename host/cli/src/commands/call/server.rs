//! Calls of tools of MCP servers of the configuration.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fumehood::{
    CallError, CallResult, CancellationToken, ErrorKind, Event, Limits, McpTools, Metadata, Namespace, Observer,
    Progress, ResultForm, SEPARATOR, Source, Stack, ToolProvider as _,
};

use super::{Invocation, TypedArguments, missing_tool, own_name, translate_for_cli};
use crate::args::has_sandbox_limits;
use crate::config::amount::Time;
use crate::exit::{self, Exit, UsageError};
use crate::hooks::TerminalHookApprover;
use crate::render;
use crate::servers::{self, Server};

impl Invocation<'_> {
    /// Calls a tool of an MCP server and prints its result. The arguments are validated and hooks decide, as for components.
    pub(super) async fn call_server(&self, server: &Server, typed_arguments: TypedArguments) -> Result<Exit> {
        self.reject_component_options(&server.name)?;
        let lock = self.app.lock()?;
        if let Some(why) = server.reason_not_to_start(lock) {
            let result = unapproved(&server.name, why);
            self.print(&result, ResultForm::Parts)?;
            return Ok(exit::from_result(&result));
        }
        let tools = Arc::new(servers::connect_one(&self.app.config, lock, server).await?);
        let called = self.call_connected(server, &tools, typed_arguments).await;
        tools.close().await;
        let result = called?;
        self.print(&result, ResultForm::TextFirst)?;
        Ok(exit::from_result(&result))
    }

    async fn call_connected(
        &self,
        server: &Server,
        tools: &Arc<McpTools>,
        typed_arguments: TypedArguments,
    ) -> Result<CallResult> {
        let (host, hook_components) = self.build_host(self.app.host_builder()?, Limits::default()).await?;
        let hooks = self.load_hooks(&host, hook_components).await?;
        let prefix = format!("{}{SEPARATOR}", server.name);
        let listed = tools.tools();
        let names: Vec<_> = listed.iter().filter_map(|tool| tool.full_name().strip_prefix(&prefix)).collect();
        let Some(tool) = &self.call.tool else {
            let inspect = format!("fumehood approve {} --check --full", server.name);
            return Err(missing_tool(server.name.as_str(), &names, &inspect).into());
        };
        let full_name = format!("{prefix}{}", own_name(&names, tool, server.name.as_str()));
        if listed.is_empty() {
            servers::warn_of_tools(&server.name, Some(&tools.refused()), None);
        }
        let definition = listed.iter().find(|tool| tool.full_name() == full_name).map(|tool| tool.definition());
        let interrupted = CancellationToken::new();
        let mut request = self.request(&full_name, typed_arguments.into_json(definition));
        request = request.observer(Arc::new(ProgressPrinter)).cancelled_by(interrupted.clone());
        if let Some(Time(deadline)) = self.call.limits.deadline {
            request = request.limits(Limits::default().deadline(deadline));
        }
        let log = self.recording.map(|recording| recording.calls().clone());
        let stack = Stack::new().policies(hooks).approver(TerminalHookApprover::from_terminal()).log(log);
        let layered = stack.around([Source::Provider(Arc::clone(tools) as _)]);
        let mut called = layered.dispatch(request);
        let mut result = tokio::select! {
            result = &mut called => result,
            _ = tokio::signal::ctrl_c() => {
                interrupted.cancel();
                called.await
            }
        };
        if let Err(error) = &mut result.outcome {
            translate_for_cli(error, &prefix, false);
            if error.kind == ErrorKind::UnknownTool && listed.is_empty() {
                error.hint = Some(format!("the MCP server `{}` has no tool that can be used", server.name).into());
            }
        }
        host.shutdown(Duration::ZERO).await;
        Ok(result)
    }

    /// Returns an error for options that only have a meaning for components.
    fn reject_component_options(&self, server: &Namespace) -> Result<(), UsageError> {
        let option = if self.call.powers.has_any() {
            Some("powers")
        } else if has_sandbox_limits(&self.call.limits) {
            Some("limits of the sandbox other than `--timeout`")
        } else if self.call.state.is_some() {
            Some("`--state`")
        } else {
            None
        };
        match option {
            Some(option) => Err(UsageError(format!(
                "`{server}` is an MCP server, which runs outside of the sandbox: {option} cannot be set for it"
            ))),
            None => Ok(()),
        }
    }
}

/// Returns the result of a call of a server that may not be started or connected to.
fn unapproved(server: &Namespace, why: &str) -> CallResult {
    let error = CallError::new(ErrorKind::NeedsApproval, format!("the MCP server `{server}` was not asked: {why}"));
    let outcome = Err(error.with_hint(format!("look at it and approve it: `fumehood approve {server}`")));
    let metadata = Metadata::default().with_outcome(&outcome);
    CallResult { id: render::CALL_ID.to_owned(), tool: server.to_string(), outcome, metadata }
}

/// Prints progress as it arrives.
struct ProgressPrinter;

impl Observer for ProgressPrinter {
    fn progress(&self, progress: Progress) {
        render::event(&Event::Progress { id: render::CALL_ID.to_owned(), progress });
    }
}
