//! The pipeline as a [`ToolExecutor`]: runs batches and returns results in the order of the calls.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::chat::{ToolIntent, ToolSpec};
use fumehood_core::tool::Stop;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::abort::printable_name;
use super::batch::Batch;
use super::config::PipelineConfig;
use super::dispatch::Dispatch;
use crate::catch_panic::catch_panic;
use crate::execution::{Status, ToolExecution};
use crate::executor::{BatchEnd, BatchOutcome, Scope, ToolExecutor};
use crate::truncate::{clean, clean_schema};

/// An executor that takes calls through every check and hook to their tools, and records them.
pub struct Pipeline(PipelineConfig);

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("modes", &self.0.modes).finish_non_exhaustive()
    }
}

impl ToolExecutor for Pipeline {
    fn specs(&self, scope: &Scope) -> Vec<ToolSpec> {
        let batch = Batch::new(&self.0, scope);
        let tools = self.0.registry.tools();
        let allowed = tools.iter().filter(|tool| batch.allowed.allows(tool.full_name()));
        allowed.map(|tool| clean_spec(tool.to_spec())).collect()
    }

    fn execute<'a>(&'a self, calls: Vec<ToolIntent>, scope: &'a Scope) -> BoxFuture<'a, BatchOutcome> {
        Box::pin(async move {
            let batch = Batch::new(&self.0, scope);
            let modes = &self.0.modes;
            let mut outcome = if modes.throw_on_tool_failure || modes.stop_on_tool_block {
                self.run_sequentially(calls, &batch).await
            } else {
                self.run_concurrently(calls, &batch).await
            };
            outcome.state = batch.changed_state();
            outcome.usage = batch.usage();
            if let (Some(sink), Some(state)) = (&self.0.state_sink, &outcome.state) {
                sink.state(scope, Arc::clone(state));
            }
            outcome
        })
    }
}

/// Removes invisible characters from the description of a tool, and escapes the tags of prompts.
fn clean_spec(spec: ToolSpec) -> ToolSpec {
    let ToolSpec { name, description, parameters } = spec;
    ToolSpec { name, description: clean(&description), parameters: clean_schema(&parameters) }
}

impl Pipeline {
    pub(super) fn new(config: PipelineConfig) -> Self {
        Self(config)
    }

    async fn run_call(&self, call: ToolIntent, batch: &Batch<'_>) -> Result<ToolExecution, Stop> {
        let original = call.clone();
        match catch_panic(Dispatch::new(&self.0, batch, call).run()).await {
            Ok(ended) => ended,
            Err(panic) => Ok(self.host_failure(original, &panic)),
        }
    }

    /// Returns the execution of a call during which the host itself panicked.
    fn host_failure(&self, mut call: ToolIntent, panic: &str) -> ToolExecution {
        if call.id.is_empty() {
            call.id = self.0.ids.next("call");
        }
        let error = CallError::new(ErrorKind::Host, format!("the host failed while it made the call: {panic}"));
        let (id, tool, metadata) = (call.id.clone(), printable_name(&call.name), Metadata::default());
        let now = self.0.clock.now();
        ToolExecution {
            id: self.0.ids.next("exec"),
            call,
            status: Status::HandlerError,
            result: CallResult { id, tool, outcome: Err(error), metadata },
            started_at: now,
            completed_at: now,
            modified: None,
        }
    }

    /// Runs the calls concurrently, up to the limit.
    ///
    /// Once a call ended the run no other starts. Running calls are awaited, so that the end of each is recorded.
    async fn run_concurrently(&self, calls: Vec<ToolIntent>, batch: &Batch<'_>) -> BatchOutcome {
        let mut slots: Vec<Option<ToolExecution>> = Vec::new();
        slots.resize_with(calls.len(), || None);
        let mut waiting = calls.into_iter().enumerate();
        let mut running = FuturesUnordered::new();
        let start = |(index, call)| async move { (index, self.run_call(call, batch).await) };
        running.extend(waiting.by_ref().take(self.0.modes.concurrency.get()).map(start));
        let mut ended = None;
        while let Some((index, end)) = running.next().await {
            match end {
                Ok(execution) => {
                    if let Some(slot) = slots.get_mut(index) {
                        *slot = Some(execution);
                    }
                }
                Err(Stop { reason }) => {
                    ended.get_or_insert(BatchEnd::Stop { reason });
                }
            }
            if ended.is_none() {
                running.extend(waiting.next().map(start));
            }
        }
        BatchOutcome::new(slots.into_iter().flatten().collect(), ended)
    }

    /// Runs the calls one after the other, until one ends the batch.
    async fn run_sequentially(&self, calls: Vec<ToolIntent>, batch: &Batch<'_>) -> BatchOutcome {
        let modes = &self.0.modes;
        let mut executions = Vec::with_capacity(calls.len());
        for (index, call) in calls.into_iter().enumerate() {
            let execution = match self.run_call(call, batch).await {
                Ok(execution) => execution,
                Err(Stop { reason }) => return BatchOutcome::new(executions, Some(BatchEnd::Stop { reason })),
            };
            let (blocked, failed) = (execution.is_blocked(), execution.has_error());
            executions.push(execution);
            let ended = match (blocked, failed) {
                (true, _) if modes.stop_on_tool_block => BatchEnd::Blocked { index },
                (false, true) if modes.throw_on_tool_failure => BatchEnd::Failed { index },
                _ => continue,
            };
            return BatchOutcome::new(executions, Some(ended));
        }
        BatchOutcome::new(executions, None)
    }
}
