//! Code mode in the pipeline: its two tools, and the calls of programs, each of which is a dispatch of its own.

use std::sync::PoisonError;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::chat::ToolIntent;
use fumehood_core::tool::{Stop, ValidatedCall};

use super::abort::Abort;
use super::batch::{Batch, RunningProgram};
use super::config::{CodeConfig, PipelineConfig};
use super::dispatch::{Dispatch, Dispatched};
use crate::code::{self, CallMaker, Called, OpenQuestions, ProgramEnd, ProgramRequest, ProgramTools, RUN_CODE};
use crate::execution::Status;
use crate::executor::Scope;
use crate::registry::{RegisteredTool, ToolPolicy};
use crate::tool_search::SEARCH_TOOLS;

impl CodeConfig {
    /// Finds a tool of code mode.
    pub(super) fn find(&self, name: &str) -> Option<RegisteredTool> {
        let policy = ToolPolicy {
            result_bytes: Some(code::max_result_bytes(&self.mode.limits)),
            expected_duration: Some(self.mode.limits.wall_time),
            ..ToolPolicy::default()
        };
        self.tools.find(name).map(|tool| RegisteredTool::of_pipeline(tool.clone(), policy))
    }
}

impl Batch<'_> {
    /// Returns whether a call of this name may be made.
    pub(super) fn allows(&self, config: &PipelineConfig, name: &str) -> bool {
        let is_of_code = |code: &CodeConfig| !self.is_program() && code.tools.find(name).is_some();
        if self.skill_call().is_some_and(|only| only != name) {
            return false;
        }
        let is_search = config.catalogue.is_some() && name == SEARCH_TOOLS && !self.is_of_implementation();
        if is_search || self.code(config).is_some_and(is_of_code) {
            // They have no power of their own; a scope whose allowlist is not valid has no tools at all.
            self.allowed.allowed.is_ok()
        } else {
            self.allowed.allows(name) && self.allows_directly(config, name)
        }
    }

    /// Returns whether code mode lets a call of this name be made in this way: directly, or by a program.
    pub(super) fn allows_directly(&self, config: &PipelineConfig, name: &str) -> bool {
        let is_offered = |code: &CodeConfig| !code.mode.only || code.tools.find(name).is_some();
        self.is_program() || self.skill_call().is_some() || self.code(config).is_none_or(is_offered)
    }

    /// Returns code mode, if a model has it, or a program does the task of the skill.
    pub(super) fn code<'c>(&self, config: &'c PipelineConfig) -> Option<&'c CodeConfig> {
        let is_skill = self.skill_call() == Some(RUN_CODE);
        config.code.as_ref().filter(|code| code.is_offered || is_skill)
    }
}

impl Dispatch<'_> {
    /// Refuses a direct call where only programs may call tools.
    pub(super) fn only_in_programs(&self, name: &str) -> Abort {
        let message = format!("tool '{name}' cannot be called directly; call tools in a program with `{RUN_CODE}`");
        let error = CallError::new(ErrorKind::NotAllowed, message);
        Abort::refusal(Status::RejectedAllowlist, error)
    }

    /// Runs a call of a tool of code mode.
    ///
    /// # Errors
    /// If a call of the program ends the whole run.
    pub(super) async fn run_code_tool(&self, call: &ValidatedCall, context: &CallContext) -> Result<CallResult, Stop> {
        let id = context.id.clone();
        let tool = call.tool().full_name().to_owned();
        let Some(code) = &self.config.code else {
            let outcome = Err(CallError::replaced());
            let metadata = Metadata::default();
            return Ok(CallResult { id, tool, outcome, metadata });
        };
        let tools = self.config.registry.tools();
        let tools = ProgramTools::new(tools.into_iter().filter(|tool| self.batch.allowed.allows(tool.full_name())));
        if tool != RUN_CODE {
            let outcome = Ok(code.tools.search(tools, call.arguments()).await);
            return Ok(CallResult { id, tool, outcome, metadata: Metadata::default() });
        }
        let cause = self.journal.last().map(str::to_owned);
        let calls = ProgramDispatch {
            config: self.config,
            outer: self.batch,
            scope: Scope { cause, ..self.batch.scope.clone() },
            program: RunningProgram::new(&id),
        };
        let request = ProgramRequest {
            code: code::code(call.arguments()),
            names: tools.names(),
            limits: code.mode.limits,
            id: &id,
            execution: self.execution(),
            now: self.config.clock.now(),
            records: self.batch.scope.programs.as_deref(),
            account: self.batch.scope.allowance.clone().map(|allowance| allowance as _),
        };
        let (outcome, metadata) = match code::run(code.interpreter.as_ref(), request, &calls).await? {
            ProgramEnd::Report(report) => (report.outcome, report.metadata),
            ProgramEnd::Suspended(deferred) => {
                *self.suspended.lock().unwrap_or_else(PoisonError::into_inner) = deferred;
                (Err(CallError::cancelled()), Metadata::default())
            }
        };
        Ok(CallResult { id, tool, outcome, metadata })
    }
}

/// Calls of a program, each dispatched like one of the model. The parent of their records is that of the program's start.
struct ProgramDispatch<'a> {
    config: &'a PipelineConfig,
    outer: &'a Batch<'a>,
    scope: Scope,
    program: RunningProgram,
}

impl CallMaker for ProgramDispatch<'_> {
    fn reserve(&self) -> Result<(), CallError> {
        if self.scope.allowance.as_ref().is_some_and(|allowance| !allowance.take_call()) {
            let error =
                CallError::new(ErrorKind::BudgetExhausted, "[budget exhausted — no tool calls of the session left]");
            return Err(error.with_hint("return what there is"));
        }
        self.outer.count_program_call();
        Ok(())
    }

    fn count_again(&self) {
        // It was made: a budget that is used up by now stops the next one.
        if let Some(allowance) = &self.scope.allowance {
            let _is_left = allowance.take_call();
        }
        self.outer.count_program_call();
    }

    fn add_past_call(&self, tool: &str) {
        Batch::of_program(self.config, &self.scope, self.outer, &self.program).start_call(tool);
    }

    fn is_denied(&self, id: &str) -> bool {
        let mut answers = self.scope.answers.iter().filter(|answer| answer.inner.as_deref() == Some(id)).peekable();
        answers.peek().is_some() && answers.all(|answer| !answer.given.yes)
    }

    fn call(&self, intent: ToolIntent) -> BoxFuture<'_, Result<Called, Stop>> {
        Box::pin(async move {
            let batch = Batch::of_program(self.config, &self.scope, self.outer, &self.program);
            let mut dispatch = Dispatch::new(self.config, &batch, intent);
            Ok(match dispatch.run().await? {
                Dispatched::Ended(execution) => Called::Finished(execution.result),
                // A call of a program runs no program, so that only the call itself can wait.
                Dispatched::Deferred(calls) => calls.into_iter().next().map_or_else(lost, Called::Deferred),
            })
        })
    }

    fn questions(&self) -> &OpenQuestions {
        &self.program.questions
    }
}

/// Returns the end of a call without a result.
fn lost() -> Called {
    let outcome = Err(CallError::cancelled());
    let metadata = Metadata::default();
    Called::Finished(CallResult { id: String::new(), tool: String::new(), outcome, metadata })
}
