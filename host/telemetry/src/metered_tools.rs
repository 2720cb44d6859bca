//! A layer around a provider of tools that counts and measures calls.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{Call, CallContext};
use fumehood_core::tool::{Changes, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall};

use crate::live::LiveGuard;
use crate::metrics::Metrics;

/// Tools whose calls are counted and measured.
pub struct MeteredTools {
    inner: Arc<dyn ToolProvider>,
    metrics: Arc<Metrics>,
    /// Full name of the only tool that is metered; `None` for all.
    only: Option<&'static str>,
}

impl fmt::Debug for MeteredTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeteredTools").field("only", &self.only).finish_non_exhaustive()
    }
}

impl MeteredTools {
    /// Creates a layer that records calls in `metrics`.
    #[must_use]
    pub fn new(inner: Arc<dyn ToolProvider>, metrics: Arc<Metrics>) -> Self {
        Self { inner, metrics, only: None }
    }

    /// Restricts the layer to one tool: for a provider around another one whose calls are recorded already.
    #[must_use]
    pub fn only(self, tool: &'static str) -> Self {
        Self { only: Some(tool), ..self }
    }

    /// Begins to measure a call, unless it is not one of this layer.
    fn begin(&self, tool: &str, context: &mut CallContext) -> Option<Measured> {
        if self.only.is_some_and(|only| only != tool) {
            return None;
        }
        // Whatever a client asks for, only names of tools become labels.
        let tool = self.inner.find(tool);
        let name = tool.as_deref().map_or("unknown tool", Tool::full_name);
        let guard = self.metrics.live().begin(name, context);
        Some(Measured { metrics: Arc::clone(&self.metrics), tool, actor: context.actor.clone(), guard: Some(guard) })
    }
}

/// A call that has not ended. If its caller drops it, it counts as cancelled.
struct Measured {
    metrics: Arc<Metrics>,
    tool: Option<Arc<Tool>>,
    actor: Option<Arc<str>>,
    guard: Option<LiveGuard>,
}

impl Measured {
    fn finish(mut self, result: &CallResult) {
        self.record(result);
    }

    fn record(&mut self, result: &CallResult) {
        if self.guard.take().is_some() {
            self.metrics.record_call(self.tool.as_deref().map(Tool::full_name), self.actor.as_deref(), result);
        }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.record(&failed(CallError::cancelled()));
        }
    }
}

/// Returns the result of a call that cost nothing, as far as is known.
fn failed(error: CallError) -> CallResult {
    CallResult { id: String::new(), tool: String::new(), outcome: Err(error), metadata: Metadata::default() }
}

impl ToolProvider for MeteredTools {
    fn kind(&self) -> ProviderKind {
        self.inner.kind()
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        self.inner.tools()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.inner.find(name)
    }

    fn call(&self, call: ValidatedCall, mut context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let Some(measured) = self.begin(call.tool().full_name(), &mut context) else {
            return self.inner.call(call, context);
        };
        Box::pin(async move {
            let ended = self.inner.call(call, context).await;
            match &ended {
                Ok(result) => measured.finish(result),
                Err(stop) => measured.finish(&failed(CallError::new(ErrorKind::ToolFailed, stop.reason.as_str()))),
            }
            ended
        })
    }

    fn changes(&self) -> Changes {
        self.inner.changes()
    }

    fn dispatch(&self, mut call: Call) -> BoxFuture<'_, CallResult> {
        let Some(measured) = self.begin(&call.tool, &mut call.context) else {
            return self.inner.dispatch(call);
        };
        Box::pin(async move {
            let result = self.inner.dispatch(call).await;
            measured.finish(&result);
            result
        })
    }
}
