//! The pipeline as a [`ToolExecutor`]: runs batches and returns results in the order of the calls.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::{ToolIntent, ToolSpec};
use fumehood_core::tool::{Stop, Tool};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::batch::Batch;
use super::config::PipelineConfig;
use super::dispatch::{Dispatch, Dispatched};
use crate::code::ProgramTools;
use fumehood_core::panic::catch_panic;

use crate::executor::{BatchEnd, BatchOutcome, Scope, ToolExecutor};
use crate::run_settings::RunSettings;
use crate::tool_search::{SEARCH_TOOLS, ToolCatalogue, all_shown, clean_spec};

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
        if batch.skill_call().is_some() {
            return Vec::new();
        }
        let tools = self.0.registry.tools();
        let allowed: Vec<Arc<Tool>> = tools.into_iter().filter(|tool| batch.allowed.allows(tool.full_name())).collect();
        if let Some(catalogue) = &self.0.catalogue {
            // What was shown comes last, in the order in which it was shown, so that requests keep their beginning.
            let listed = allowed.iter().filter(|tool| catalogue.is_listed(tool)).map(|tool| tool.to_spec());
            let search = batch.allows(&self.0, SEARCH_TOOLS).then(|| catalogue.search_spec(&allowed));
            let first = search.into_iter().chain(listed).map(clean_spec);
            return first.chain(self.shown_specs(catalogue, &scope.shown, &batch)).collect();
        }
        let direct = allowed.iter().filter(|tool| batch.allows_directly(&self.0, tool.full_name()));
        let mut specs: Vec<ToolSpec> = direct.map(|tool| clean_spec(tool.to_spec())).collect();
        if let Some(code) = batch.code(&self.0).filter(|_| batch.allowed.allowed.is_ok()) {
            // Sanitized where it is made.
            specs.extend(code.tools.specs(&ProgramTools::new(allowed)));
        }
        specs
    }

    fn run_settings(&self, message: &str, scope: &Scope) -> RunSettings {
        self.0.run_settings(message, scope)
    }

    fn withheld_tools(&self) -> Vec<String> {
        self.0.withheld.clone()
    }

    fn can_ask(&self) -> bool {
        self.0.approver.as_ref().is_some_and(|approver| approver.is_available())
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
            outcome.usage = batch.usage();
            outcome.program_calls = batch.program_calls();
            outcome.first_calls = batch.first_calls();
            outcome.answer = batch.take_answer();
            if let Some(catalogue) = &self.0.catalogue {
                let mut shown = all_shown(outcome.executions.iter());
                shown.retain(|name| !batch.was_shown(name));
                outcome.tools = self.shown_specs(catalogue, &shown, &batch);
            }
            outcome
        })
    }
}

impl Pipeline {
    pub(super) fn new(config: PipelineConfig) -> Self {
        Self(config)
    }

    /// Returns the specs of tools that a search showed, as far as they are there and may be called. Those that are
    /// listed anyway are left out.
    fn shown_specs(&self, catalogue: &ToolCatalogue, shown: &[String], batch: &Batch<'_>) -> Vec<ToolSpec> {
        let found =
            shown.iter().filter(|name| batch.allows(&self.0, name)).filter_map(|name| self.0.registry.find(name));
        let found = found.filter(|found| !catalogue.is_listed(&found.tool));
        found.map(|found| clean_spec(found.tool.to_spec())).collect()
    }

    async fn run_call(&self, call: ToolIntent, batch: &Batch<'_>) -> Result<Dispatched, Stop> {
        let mut dispatch = Dispatch::new(&self.0, batch, call);
        match catch_panic(dispatch.run()).await {
            Ok(ended) => ended,
            Err(panic) => Ok(Dispatched::Ended(Box::new(dispatch.fail(&panic)))),
        }
    }

    /// Runs the calls concurrently, up to the limit.
    ///
    /// Once a call ended the run no other starts. Running calls are awaited, so that the end of each is recorded.
    async fn run_concurrently(&self, calls: Vec<ToolIntent>, batch: &Batch<'_>) -> BatchOutcome {
        let mut slots: Vec<Option<Dispatched>> = Vec::new();
        slots.resize_with(calls.len(), || None);
        let mut waiting = calls.into_iter().enumerate();
        let mut running = FuturesUnordered::new();
        // In a box of its own the large future of a call is moved once, and not with every step on its way into the set.
        let start = |(index, call)| Box::pin(async move { (index, self.run_call(call, batch).await) });
        running.extend(waiting.by_ref().take(self.0.modes.concurrency.get()).map(start));
        let mut ended = None;
        while let Some((index, end)) = running.next().await {
            match end {
                Ok(dispatched) => {
                    if let Some(slot) = slots.get_mut(index) {
                        *slot = Some(dispatched);
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
        let mut executions = Vec::with_capacity(slots.len());
        let mut deferred = Vec::new();
        for dispatched in slots.into_iter().flatten() {
            match dispatched {
                Dispatched::Ended(execution) => executions.push(*execution),
                Dispatched::Deferred(calls) => deferred.extend(calls),
            }
        }
        BatchOutcome { deferred, ..BatchOutcome::new(executions, ended) }
    }

    /// Runs the calls one after the other, until one ends the batch.
    async fn run_sequentially(&self, calls: Vec<ToolIntent>, batch: &Batch<'_>) -> BatchOutcome {
        let modes = &self.0.modes;
        let mut executions = Vec::with_capacity(calls.len());
        let mut deferred = Vec::new();
        for (index, call) in calls.into_iter().enumerate() {
            let execution = match self.run_call(call, batch).await {
                Ok(Dispatched::Ended(execution)) => *execution,
                Ok(Dispatched::Deferred(calls)) => {
                    deferred.extend(calls);
                    continue;
                }
                Err(Stop { reason }) => return BatchOutcome::new(executions, Some(BatchEnd::Stop { reason })),
            };
            let blocked = execution.is_blocked();
            let failed = execution.has_error();
            executions.push(execution);
            let ended = match (blocked, failed) {
                (true, _) if modes.stop_on_tool_block => BatchEnd::Blocked { index },
                (false, true) if modes.throw_on_tool_failure => BatchEnd::Failed { index },
                _ => continue,
            };
            return BatchOutcome::new(executions, Some(ended));
        }
        BatchOutcome { deferred, ..BatchOutcome::new(executions, None) }
    }
}
