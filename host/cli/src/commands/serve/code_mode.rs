//! Code mode for MCP clients: programs that call what is served, recorded like the calls that they make.

use std::sync::Arc;

use anyhow::Result;
use fumehood::agent::agent::SystemClock;
use fumehood::agent::code::{CodeMode, CodeProvider, RUN_CODE};
use fumehood::{
    Call, CallError, CallLog, CallResult, Host, Metadata, PendingCall, Stop, Tool, ToolLayer, ToolProvider,
};

/// Puts code mode in front of tools.
#[derive(Clone)]
pub(crate) struct CodeLayer {
    host: Host,
    mode: CodeMode,
    log: Option<CallLog>,
}

impl CodeLayer {
    /// Creates a layer whose programs are recorded in `log`, if there is one.
    pub(crate) fn new(host: &Host, mode: CodeMode, log: Option<CallLog>) -> Self {
        Self { host: host.clone(), mode, log }
    }

    /// Puts code mode in front of `offered`.
    ///
    /// # Errors
    /// If the tools of code mode cannot be set up, which does not depend on what is behind them.
    pub(crate) fn in_front_of(&self, offered: Arc<dyn ToolProvider>) -> Result<Arc<dyn ToolProvider>> {
        let code = CodeProvider::new(offered, Arc::new(self.host.javascript()), self.mode, Arc::new(SystemClock))?;
        Ok(match &self.log {
            Some(log) => Arc::new(RecordedPrograms { code, log: log.clone() }),
            None => Arc::new(code),
        })
    }
}

/// Code mode whose programs are recorded. The calls that they make are recorded by the provider behind it.
struct RecordedPrograms {
    code: CodeProvider,
    log: CallLog,
}

impl RecordedPrograms {
    /// Runs a program, and records its start and its end. One whose start cannot be recorded does not run.
    async fn run(&self, mut call: Call) -> CallResult {
        let mut entry = self.log.entry(&call);
        let validate = |tool: Arc<Tool>| tool.validate_for(call.arguments.clone(), &call.context).ok();
        let Some(validated) = self.code.find(RUN_CODE).and_then(validate) else {
            let refused = self.code.dispatch(call).await;
            entry.ended(&refused).await;
            return refused;
        };
        entry.repaired(validated.repairs());
        let id = call.context.id.clone();
        let tool = call.tool.clone();
        let result = match entry.started(validated.arguments(), None).await {
            Ok(()) => {
                call.context.cause = Some(Arc::from(entry.last_record()));
                self.code.dispatch(call).await
            }
            Err(error) => {
                let outcome = Err(CallError::unrecorded(&error));
                CallResult { id, tool, outcome, metadata: Metadata::default() }
            }
        };
        entry.ended(&result).await;
        result
    }
}

impl ToolLayer for RecordedPrograms {
    fn inner(&self) -> &dyn ToolProvider {
        &self.code
    }

    async fn handle(&self, call: PendingCall) -> Result<CallResult, Stop> {
        if call.tool_name() == RUN_CODE {
            Ok(self.run(call.into_unchecked()).await)
        } else {
            call.run(self.inner()).await
        }
    }
}
