//! Code mode in front of a provider of tools, for those who have no pipeline, such as an MCP server.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::history::CallHistory;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{Arguments, Call, CallContext};
use fumehood_core::chat::ToolIntent;
use fumehood_core::telemetry;
use fumehood_core::time::Timestamp;
use fumehood_core::tool::{Changes, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall, unknown_tool};
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::call_maker::{CallMaker, Called, OpenQuestions};
use super::code_tools::{CodeTools, CodeToolsError, RUN_CODE, code};
use super::interpreter::Interpreter;
use super::limits::{CodeMode, ProgramLimits};
use super::program_tools::ProgramTools;
use super::run::{ProgramEnd, ProgramRequest, run};
use crate::clock::Clock;
use crate::tool_search::SEARCH_TOOLS;

/// A provider with the two tools of code mode in front of another one.
///
/// Calls of programs are dispatched by that one, so that what it checks and records holds for them as well.
pub struct CodeProvider {
    provider: Arc<dyn ToolProvider>,
    interpreter: Arc<dyn Interpreter>,
    tools: CodeTools,
    mode: CodeMode,
    clock: Arc<dyn Clock>,
    programs: AtomicU64,
}

impl fmt::Debug for CodeProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeProvider").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl CodeProvider {
    /// Puts code mode in front of `provider`.
    ///
    /// # Errors
    /// If the tools of code mode cannot be set up.
    pub fn new(
        provider: Arc<dyn ToolProvider>,
        interpreter: Arc<dyn Interpreter>,
        mode: CodeMode,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CodeToolsError> {
        Ok(Self { provider, interpreter, tools: CodeTools::new()?, mode, clock, programs: AtomicU64::new(0) })
    }

    fn program_tools(&self) -> ProgramTools {
        ProgramTools::new(self.provider.tools())
    }

    /// Runs a call of one of the two tools. Returns `None` for any other.
    async fn call_own(&self, call: &ValidatedCall, context: &CallContext) -> Option<CallResult> {
        let (outcome, metadata) = match call.tool().full_name() {
            RUN_CODE => self.run(call, context).await,
            SEARCH_TOOLS => (Ok(self.tools.search(self.program_tools(), call.arguments()).await), Metadata::default()),
            _ => return None,
        };
        let metadata = metadata.with_outcome(&outcome);
        Some(CallResult { id: context.id.clone(), tool: call.tool().full_name().to_owned(), outcome, metadata })
    }

    /// Runs a program: after its first slice, with all its calls, where the interpreter runs programs.
    async fn run(&self, call: &ValidatedCall, context: &CallContext) -> (Result<Vec<Content>, CallError>, Metadata) {
        let number = self.programs.fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("program-{number}");
        let now = self.clock.now();
        let run = ProgramRun {
            code: code(call.arguments()).to_owned(),
            names: self.program_tools().names(),
            limits: self.mode.limits,
            execution: format!("{id} {}", now.0),
            id: if context.id.is_empty() { id } else { context.id.clone() },
            now,
            provider: Arc::clone(&self.provider),
            interpreter: Arc::clone(&self.interpreter),
            context: context.clone(),
        };
        let (sender, mut ended) = oneshot::channel();
        let program = async move {
            // Nobody receives it if the caller has left.
            let _received = sender.send(run.run_to_end().await);
        };
        self.interpreter.drive(Box::pin(program.in_current_span())).await;
        ended.try_recv().unwrap_or_else(|_| {
            let error = CallError::new(ErrorKind::Cancelled, "the host shut down while the program was running");
            (Err(error), Metadata::default())
        })
    }

    fn find_own(&self, name: &str) -> Option<Arc<Tool>> {
        self.tools.find(name).cloned()
    }

    fn refused(&self, error: CallError, id: String, tool: String) -> CallResult {
        CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() }
    }
}

impl ToolProvider for CodeProvider {
    fn kind(&self) -> ProviderKind {
        self.provider.kind()
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        let behind = self.provider.tools();
        let own = self.tools.describe(&ProgramTools::new(behind.iter().cloned()));
        let mut tools = if self.mode.only { Vec::new() } else { behind };
        tools.retain(|tool| self.tools.find(tool.full_name()).is_none());
        tools.extend(own);
        tools.sort_by(|a, b| a.full_name().cmp(b.full_name()));
        tools
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.find_own(name).or_else(|| if self.mode.only { None } else { self.provider.find(name) })
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            match self.call_own(&call, &context).await {
                Some(result) => Ok(result),
                None => self.provider.call(call, context).await,
            }
        })
    }

    fn changes(&self) -> Changes {
        self.provider.changes()
    }

    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        Box::pin(async move {
            let Some(own) = self.find_own(&call.tool) else {
                if self.find(&call.tool).is_some() {
                    return self.provider.dispatch(call).await;
                }
                let known = self.tools();
                let error = unknown_tool(&call.tool, known.iter().map(|known| known.full_name()));
                return self.refused(error, call.context.id, call.tool);
            };
            let Call { tool, arguments, context } = call;
            match own.validate_for(arguments, &context) {
                Ok(validated) => {
                    telemetry::emit_repairs(&validated);
                    match self.call_own(&validated, &context).await {
                        Some(result) => result,
                        None => self.refused(CallError::replaced(), context.id, tool),
                    }
                }
                Err(error) => self.refused(error.into(), context.id, tool),
            }
        })
    }
}

/// A program that is to run, and all that it needs.
struct ProgramRun {
    code: String,
    names: HashMap<String, String>,
    limits: ProgramLimits,
    id: String,
    execution: String,
    now: Timestamp,
    provider: Arc<dyn ToolProvider>,
    interpreter: Arc<dyn Interpreter>,
    /// The context of the call that runs the program.
    context: CallContext,
}

impl ProgramRun {
    async fn run_to_end(self) -> (Result<Vec<Content>, CallError>, Metadata) {
        let request = ProgramRequest {
            code: &self.code,
            names: self.names,
            limits: self.limits,
            id: &self.id,
            execution: &self.execution,
            now: self.now,
            records: None,
            account: None,
        };
        let calls = ProviderCalls {
            provider: self.provider.as_ref(),
            context: &self.context,
            history: Arc::default(),
            questions: OpenQuestions::default(),
        };
        let running = run(self.interpreter.as_ref(), request, &calls);
        let ended = match &self.context.cancelled {
            Some(cancelled) => cancelled.run_until_cancelled(running).await,
            None => Some(running.await),
        };
        match ended {
            Some(Ok(ProgramEnd::Report(report))) => (report.outcome, report.metadata),
            // Nobody is asked here.
            Some(Ok(ProgramEnd::Suspended(_))) | None => (Err(CallError::cancelled()), Metadata::default()),
            Some(Err(stop)) => (Err(CallError::new(ErrorKind::ToolFailed, stop.reason)), Metadata::default()),
        }
    }
}

/// Calls of a program that the provider behind code mode dispatches.
struct ProviderCalls<'a> {
    provider: &'a dyn ToolProvider,
    /// The context of the call that runs the program.
    context: &'a CallContext,
    /// The calls that the program made.
    history: Arc<CallHistory>,
    questions: OpenQuestions,
}

impl CallMaker for ProviderCalls<'_> {
    fn reserve(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn call(&self, intent: ToolIntent) -> BoxFuture<'_, Result<Called, Stop>> {
        Box::pin(async move {
            let ToolIntent { id, name, arguments } = intent;
            // A provider may dispatch calls of tools that it does not offer.
            let Some(tool) = self.provider.find(&name) else {
                let known = self.provider.tools();
                let error = unknown_tool(&name, known.iter().map(|known| known.full_name()));
                let outcome = Err(error);
                let metadata = Metadata::default();
                return Ok(Called::Finished(CallResult { id, tool: name, outcome, metadata }));
            };
            let program = Some(Arc::clone(&self.history));
            // Limits, the observer and the execution are those of the program itself.
            let context = self.context.clone();
            let context = CallContext { id, execution: None, limits: None, observer: None, program, ..context };
            let call = Call { tool: name, arguments: Arguments::Text(arguments), context };
            let mut result = self.provider.dispatch(call).await;
            if let Some(parts) = result.outcome.as_ref().ok().and_then(|parts| tool.result_form().for_program(parts)) {
                result.outcome = Ok(parts);
            }
            Ok(Called::Finished(result))
        })
    }

    fn questions(&self) -> &OpenQuestions {
        &self.questions
    }
}
