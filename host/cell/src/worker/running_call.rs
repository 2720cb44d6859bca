//! A call that runs at a worker.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::{Level, Progress};
use fumehood_core::call::result::{CallError, CallResult, Metadata, RequestReport};
use fumehood_core::call::{Arguments, CallContext, CancellationToken, Observer, Usage};
use fumehood_core::telemetry;
use fumehood_core::tool::{InvalidCall, MAX_INLINE_STEPS, Tool, ValidatedCall};
use futures_util::FutureExt as _;
use tracing::{Instrument as _, Span};

use super::Inner;
use crate::identity::Session;
use crate::protocol::{AttemptId, CallRequest, Grant, ToGateway, WireTrace};

/// Time between two reports of what a call has cost so far, in milliseconds.
const USAGE_EVERY_MS: u64 = 250;

/// A call that runs.
pub(super) struct RunningCall {
    pub(super) inner: Arc<Inner>,
    /// The session that the call came in.
    pub(super) session: Arc<Session>,
    pub(super) request: CallRequest,
    pub(super) grant: Arc<Grant>,
    pub(super) tool: Arc<Tool>,
    pub(super) token: CancellationToken,
}

impl RunningCall {
    /// Runs the call, and sends its result.
    pub(super) async fn run(self, arguments: String) {
        let id = self.request.call.clone();
        let attempt = self.request.attempt;
        let ended = AssertUnwindSafe(self.call(arguments)).catch_unwind().await;
        let mut result = ended.unwrap_or_else(|_| {
            failure(&id, &self.tool, CallError::new(ErrorKind::Host, "the worker failed while the tool ran"))
        });
        if result.error().is_some_and(|error| error.kind == ErrorKind::Cancelled) && self.inner.state().is_ending {
            // The worker has cancelled it, and not the caller.
            result.outcome = Err(interrupted_by_end(self.inner.link.name()));
        }
        let mut body = serde_json::to_vec(&result).unwrap_or_default();
        if body.len() > self.inner.link.max_body_bytes() {
            let size = body.len();
            let maximum = self.inner.link.max_body_bytes();
            let message = format!("the result of the worker has {size} bytes; the maximum of NATS is {maximum}");
            let error = CallError::new(ErrorKind::OutputTooLarge, message)
                .with_hint("ask for less, or raise `max_payload` of the NATS server");
            body = serde_json::to_vec(&failure(&id, &self.tool, error)).unwrap_or_default();
        }
        let is_wanted = {
            let mut state = self.inner.state();
            state.tokens.remove(&attempt);
            state.calls.on_ended(attempt).is_some()
        };
        if is_wanted {
            let message = ToGateway::Ended { attempt, offer: self.grant.offer.clone() };
            self.inner.tell(&self.session, &message, &body);
        }
    }

    async fn call(&self, arguments: String) -> CallResult {
        let request = &self.request;
        let refused = |error| failure(&request.call, &self.tool, error);
        // A gateway is trusted with calls, and not with the memory of a guest: its arguments pass the gate here, too.
        let call = match validate(&self.tool, Arguments::Text(arguments)).await {
            Ok(call) => call,
            Err(error) => return refused(error),
        };
        let mut limits = self.grant.limits.within(&(self.inner.options.limits)(&self.tool));
        limits.deadline = limits.deadline.min(Duration::from_micros(request.remaining_us));
        let context = CallContext {
            id: request.call.clone(),
            actor: request.actor.as_deref().map(Arc::from),
            state: request.state.as_deref().map(Arc::from),
            limits: Some(limits),
            observer: Some(Arc::new(Forwarder {
                inner: Arc::clone(&self.inner),
                session: Arc::clone(&self.session),
                attempt: request.attempt,
                // A short call says what it cost in its result.
                usage_sent_ms: AtomicU64::new(u64::try_from(self.inner.now().as_millis()).unwrap_or(u64::MAX)),
            })),
            cancelled: Some(self.token.clone()),
            ..CallContext::default()
        };
        let span = worker_span(&self.tool, &request.call, request.trace.as_ref());
        match self.inner.tools.call(call, context).instrument(span).await {
            Ok(result) => result,
            Err(stop) => refused(CallError::new(ErrorKind::ToolFailed, stop.reason)),
        }
    }
}

/// Creates the span of a call that a gateway sent, below the span that the message names.
pub(crate) fn worker_span(tool: &Tool, id: &str, trace: Option<&WireTrace>) -> Span {
    let parent = trace.and_then(WireTrace::parse);
    parent.map_or_else(Span::none, |parent| telemetry::cell_span(tool.full_name(), id, &parent))
}

pub(crate) async fn validate(tool: &Arc<Tool>, arguments: Arguments) -> Result<ValidatedCall, CallError> {
    if tool.validation_steps(&arguments) <= MAX_INLINE_STEPS {
        return tool.validate(arguments).map_err(InvalidCall::into);
    }
    let tool = Arc::clone(tool);
    let validated = tokio::task::spawn_blocking(move || tool.validate(arguments)).await;
    let lost = |_| CallError::new(ErrorKind::Host, "the worker stopped during a check");
    validated.map_err(lost)?.map_err(InvalidCall::into)
}

/// An observer that sends what it hears of a call to its gateway.
struct Forwarder {
    inner: Arc<Inner>,
    session: Arc<Session>,
    attempt: AttemptId,
    /// The time of the worker at which the cost was sent last, in milliseconds.
    usage_sent_ms: AtomicU64,
}

impl Forwarder {
    fn tell(&self, message: &ToGateway) {
        self.inner.tell(&self.session, message, b"");
    }
}

impl Observer for Forwarder {
    fn log(&self, level: Level, message: &str) {
        self.tell(&ToGateway::Log { attempt: self.attempt, level, message: message.to_owned() });
    }

    fn progress(&self, progress: Progress) {
        let Progress { fraction, message, partial } = progress;
        let message = message.map(|text| text.to_string());
        self.tell(&ToGateway::Progress { attempt: self.attempt, fraction, message, partial });
    }

    fn request(&self, request: RequestReport) {
        self.tell(&ToGateway::Request { attempt: self.attempt, request });
    }

    fn usage(&self, usage: Usage) {
        let now_ms = u64::try_from(self.inner.now().as_millis()).unwrap_or(u64::MAX);
        let sent_ms = self.usage_sent_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(sent_ms) >= USAGE_EVERY_MS {
            self.usage_sent_ms.store(now_ms, Ordering::Relaxed);
            let peak_memory = u64::try_from(usage.peak_memory).unwrap_or(u64::MAX);
            self.tell(&ToGateway::Used { attempt: self.attempt, fuel: usage.fuel, peak_memory });
        }
    }
}

fn interrupted_by_end(worker: &str) -> CallError {
    let message = format!("the worker `{worker}` was shut down before the tool finished");
    CallError::new(ErrorKind::Interrupted, message).with_hint("check its effects before you call again")
}

fn failure(id: &str, tool: &Tool, error: CallError) -> CallResult {
    let id = id.to_owned();
    let tool = tool.full_name().to_owned();
    CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() }
}
