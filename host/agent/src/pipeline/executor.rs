//! The pipeline as the loop sees it: batches in, results in the order of the calls out.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::{ToolIntent, ToolSpec};
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::result::{CallError, CallResult, Metadata};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::abort::legible;
use super::batch::Batch;
use super::call_state::Dispatch;
use super::parts::Parts;
use crate::catch_panic::catch_panic;
use crate::execution::{Status, ToolExecution};
use crate::executor::{BatchEnd, BatchOutcome, Scope, ToolExecutor};
use crate::registry::Stop;

/// Takes calls through every check to their tools and back.
pub struct Pipeline(Parts);

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("modes", &self.0.modes).finish_non_exhaustive()
    }
}

impl ToolExecutor for Pipeline {
    fn specs(&self, scope: &Scope) -> Vec<ToolSpec> {
        let batch = Batch::new(&self.0, scope);
        let tools = self.0.registries.tools();
        let allowed = tools.iter().filter(|tool| batch.allowed.allows(tool.contract().name()));
        allowed.map(|tool| tool.contract().shown()).collect()
    }

    fn execute<'a>(&'a self, calls: Vec<ToolIntent>, scope: &'a Scope) -> BoxFuture<'a, BatchOutcome> {
        Box::pin(async move {
            let batch = Batch::new(&self.0, scope);
            let modes = &self.0.modes;
            let mut outcome = if modes.throw_on_tool_failure || modes.stop_on_tool_block {
                self.one_by_one(calls, &batch).await
            } else {
                self.together(calls, &batch).await
            };
            outcome.state = batch.changed_state();
            outcome.usage = batch.spent();
            if let (Some(sink), Some(state)) = (&self.0.state_sink, &outcome.state) {
                sink.state(scope, Arc::clone(state));
            }
            outcome
        })
    }
}

impl Pipeline {
    pub(super) fn new(parts: Parts) -> Self {
        Self(parts)
    }

    async fn one(&self, call: ToolIntent, batch: &Batch<'_>) -> Result<ToolExecution, Stop> {
        let asked = call.clone();
        match catch_panic(Dispatch::new(&self.0, batch, call).take()).await {
            Ok(ended) => ended,
            Err(said) => Ok(self.broken(asked, &said)),
        }
    }

    /// Something of the host's own panicked where nobody expected it.
    fn broken(&self, mut call: ToolIntent, said: &str) -> ToolExecution {
        if call.id.is_empty() {
            call.id = self.0.ids.next("call");
        }
        let error = CallError::new(ErrorKind::Host, format!("the host failed while it made the call: {said}"));
        let (id, tool, metadata) = (call.id.clone(), legible(&call.name), Metadata::default());
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

    /// All at once, up to the limit. Once a call ended the run no other begins; those that run are waited for, so that
    /// each of them has its end in the records.
    async fn together(&self, calls: Vec<ToolIntent>, batch: &Batch<'_>) -> BatchOutcome {
        let mut slots: Vec<Option<ToolExecution>> = Vec::new();
        slots.resize_with(calls.len(), || None);
        let mut waiting = calls.into_iter().enumerate();
        let mut running = FuturesUnordered::new();
        let start = |(index, call)| async move { (index, self.one(call, batch).await) };
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

    /// One after the other, until one ends the batch.
    async fn one_by_one(&self, calls: Vec<ToolIntent>, batch: &Batch<'_>) -> BatchOutcome {
        let modes = &self.0.modes;
        let mut executions = Vec::with_capacity(calls.len());
        for (index, call) in calls.into_iter().enumerate() {
            let execution = match self.one(call, batch).await {
                Ok(execution) => execution,
                Err(Stop { reason }) => return BatchOutcome::new(executions, Some(BatchEnd::Stop { reason })),
            };
            let (blocked, failed) = (execution.was_blocked(), execution.has_error());
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
