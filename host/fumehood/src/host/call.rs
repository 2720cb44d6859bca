//! The path of a call through a host: the tool, its limits, the gate, the sandbox, and the events.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::Event;
use fumehood_core::call::limits::{LimitError, Limits};
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{Arguments, Call, CallContext, CancellationToken};
use fumehood_core::telemetry::{self, CallContent};
use fumehood_core::tool::{
    Changes, InvalidCall, MAX_INLINE_STEPS, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall, unknown_tool,
};
use fumehood_layers::CallEntry;
use tracing::Instrument as _;

use super::{Host, HostedTool};
use crate::events::CallEvents;

impl Host {
    /// Calls a tool. Every outcome is returned as a [`CallResult`]. Dropping the future stops the guest.
    ///
    /// Works on any executor. The first slice of a guest may run on the thread that polls this future: a few
    /// milliseconds, or one bulk instruction over at most 64 MiB. Everything after that runs on threads of the host's
    /// own.
    ///
    /// Arguments and results are checked on the polling thread if that takes a few milliseconds at most, and otherwise
    /// on a thread of the host's own; [`GateLimits::work`](crate::GateLimits::work) bounds what a check takes. The check
    /// of the arguments does not count towards the deadline. A check of the result on another thread does.
    ///
    /// A call with an observer and a cancellation token:
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use fumehood::{Call, CancellationToken, Host, Level, Load, Observer, Progress};
    ///
    /// /// Prints the progress of one call.
    /// struct Printer;
    ///
    /// impl Observer for Printer {
    ///     fn log(&self, level: Level, message: &str) {
    ///         println!("{}: {message}", level.as_str());
    ///     }
    ///
    ///     fn progress(&self, progress: Progress) {
    ///         println!("{:?}", progress.fraction);
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/countdown.wasm");
    /// # let host = Host::builder().build()?;
    /// # host.load(Load::path(path)).await?;
    /// let call = Call::new("countdown__countdown", r#"{"from": 3, "step_ms": 1}"#)
    ///     .observer(Arc::new(Printer))
    ///     .cancelled_by(CancellationToken::new());
    /// assert!(host.call(call).await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn call(&self, call: Call) -> CallResult {
        match self.admit(call).await {
            Ok(admitted) => admitted.run().await,
            Err(refused) => *refused,
        }
    }

    /// Like [`Self::call`], and records the start and the end of the call in `entry`. A call that cannot be recorded does
    /// not run; it fails with the kind `host`.
    pub async fn call_recorded(&self, call: Call, entry: CallEntry) -> CallResult {
        run_recorded(self.admit(call).await, entry).await
    }

    /// Like [`Self::call_recorded`], for a call that has passed the gate.
    pub(crate) async fn call_validated_recorded(
        &self,
        call: ValidatedCall,
        context: CallContext,
        entry: CallEntry,
    ) -> CallResult {
        run_recorded(self.admit_validated(call, context), entry).await
    }

    /// Calls a tool until `cancelled` completes; then the guest is stopped within milliseconds, and the result has the
    /// kind `cancelled` and the cost of the call until then.
    pub async fn call_until(&self, call: Call, cancelled: impl Future) -> CallResult {
        let token = call.context.cancelled.clone().unwrap_or_default();
        until(self.call(call.cancelled_by(token.clone())), token, cancelled).await
    }

    /// Finds the tool of a call, and takes its limits and its arguments through the gate.
    ///
    /// # Errors
    /// The result of a call that is refused.
    async fn admit(&self, call: Call) -> Result<AdmittedCall<'_>, Box<CallResult>> {
        let Call { tool: name, arguments, mut context } = call;
        if context.id.is_empty() {
            context.id = self.next_id();
        }
        let pending = OpenCall { host: self, names: Some((context.id.clone(), name)) };
        let (_, name) = pending.names();
        let hosted = match self.resolve(name, context.is_library_request) {
            Ok(hosted) => hosted,
            Err(error) => return Err(Box::new(pending.refused(error))),
        };
        let limits = match self.limits_for(&hosted, context.limits) {
            Ok(limits) => limits,
            Err(error) => return Err(Box::new(pending.refused(error))),
        };
        match self.validate(&hosted.tool, arguments, &context).await {
            Ok(call) => {
                telemetry::emit_repairs(&call);
                Ok(AdmittedCall { pending, hosted, call, limits, context })
            }
            Err(error) => Err(Box::new(pending.refused(error))),
        }
    }

    /// Prepares a call that passed the gate elsewhere.
    ///
    /// # Errors
    /// The result of a call that is refused.
    fn admit_validated(
        &self,
        call: ValidatedCall,
        mut context: CallContext,
    ) -> Result<AdmittedCall<'_>, Box<CallResult>> {
        if context.id.is_empty() {
            context.id = self.next_id();
        }
        let name = call.tool().full_name().to_owned();
        let pending = OpenCall { host: self, names: Some((context.id.clone(), name)) };
        let hosted = self.hosted(call.tool().full_name()).filter(|hosted| Arc::ptr_eq(&hosted.tool, call.tool()));
        let Some(hosted) = hosted else { return Err(Box::new(pending.refused(CallError::replaced()))) };
        if !may_be_called(&hosted.tool, context.is_library_request) {
            let error = unknown_tool(hosted.tool.full_name(), std::iter::empty());
            return Err(Box::new(pending.refused(error)));
        }
        match self.limits_for(&hosted, context.limits) {
            Ok(limits) => Ok(AdmittedCall { pending, hosted, call, limits, context }),
            Err(error) => Err(Box::new(pending.refused(error))),
        }
    }

    fn resolve(&self, name: &str, is_library_request: bool) -> Result<HostedTool, CallError> {
        let hosted = self.hosted(name).filter(|hosted| may_be_called(&hosted.tool, is_library_request));
        let hosted = hosted.ok_or_else(|| {
            let tools = self.tools();
            unknown_tool(name, tools.iter().map(|tool| tool.full_name()))
        })?;
        match hosted.tool.refusal() {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(hosted),
        }
    }

    fn limits_for(&self, hosted: &HostedTool, own: Option<Limits>) -> Result<Limits, CallError> {
        let Some(limits) = own else { return Ok(*hosted.component.limits()) };
        let refused = |error: LimitError| {
            CallError::new(ErrorKind::InvalidLimits, format!("invalid limits of the call: {error}"))
        };
        limits.check(self.sandbox().memory_ceiling()).map_err(refused)?;
        Ok(limits)
    }

    /// Takes arguments through the gate, on another thread if that may take long.
    async fn validate(
        &self,
        tool: &Arc<Tool>,
        arguments: Arguments,
        context: &CallContext,
    ) -> Result<ValidatedCall, CallError> {
        if tool.validation_steps(&arguments) <= MAX_INLINE_STEPS {
            return tool.validate_for(arguments, context).map_err(InvalidCall::into);
        }
        let tool = Arc::clone(tool);
        let repairs = context.repairs.clone();
        let validated =
            Box::pin(self.sandbox().off_thread(move || tool.validate_with(arguments, repairs.as_deref()))).await;
        let lost = || {
            let message = "the host stopped during a check: it is shutting down, or it panicked";
            CallError::new(ErrorKind::Host, message)
        };
        validated.ok_or_else(lost)?.map_err(InvalidCall::into)
    }
}

/// Returns whether a request may call a tool: one that stands for reading resources is for requests to read them.
fn may_be_called(tool: &Tool, is_library_request: bool) -> bool {
    tool.resources().is_none() || is_library_request
}

impl ToolProvider for Host {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Component
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        Self::tools(self)
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.tool(name)
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            Ok(match self.admit_validated(call, context) {
                Ok(admitted) => admitted.run().await,
                Err(refused) => *refused,
            })
        })
    }

    fn changes(&self) -> Changes {
        Self::changes(self)
    }

    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        Box::pin(Self::call(self, call))
    }
}

/// A call that passed the gate, with its tool and its limits.
struct AdmittedCall<'a> {
    pending: OpenCall<'a>,
    hosted: HostedTool,
    call: ValidatedCall,
    limits: Limits,
    context: CallContext,
}

impl AdmittedCall<'_> {
    /// Runs the call in the sandbox.
    async fn run(self) -> CallResult {
        let Self { pending, hosted, call, limits, mut context } = self;
        let (id, tool) = pending.names();
        let bus = pending.host.bus();
        let actor = context.actor.clone();
        bus.send(|| Event::Started { id: id.to_owned(), tool: tool.to_owned(), actor });
        if bus.is_watched() {
            let bus = Arc::clone(bus);
            let also = context.observer.take();
            context.observer = Some(Arc::new(CallEvents { bus, id: id.to_owned(), also }));
        }
        let span = telemetry::call_span(tool, id);
        let content = CallContent::record_arguments(&span, &call);
        let running = hosted.component.component.call(hosted.index, call, limits, context);
        let execution = running.instrument(span.clone()).await;
        let result = pending.finished(execution.outcome, execution.metadata);
        telemetry::record_result(&span, &result);
        if let Some(content) = content {
            content.record_result(&span, &result);
        }
        result
    }
}

/// Runs a call, and records its start and its end. One whose start cannot be recorded does not run.
async fn run_recorded(admission: Result<AdmittedCall<'_>, Box<CallResult>>, mut entry: CallEntry) -> CallResult {
    let result = match admission {
        Err(refused) => *refused,
        Ok(admitted) => {
            entry.repaired(admitted.call.repairs());
            match entry.started(admitted.call.arguments(), admitted.call.tool().digest()).await {
                Ok(()) => admitted.run().await,
                Err(error) => admitted.pending.refused(CallError::unrecorded(&error)),
            }
        }
    };
    entry.ended(&result).await;
    result
}

/// A call that has not ended. If its caller drops it, it ends as cancelled, with an event.
struct OpenCall<'a> {
    host: &'a Host,
    names: Option<(String, String)>,
}

impl OpenCall<'_> {
    fn names(&self) -> (&str, &str) {
        self.names.as_ref().map_or(("", ""), |(id, tool)| (id, tool))
    }

    fn refused(self, error: CallError) -> CallResult {
        let (id, tool) = self.names();
        telemetry::emit_refused_call(tool, id, error.kind.as_str());
        self.finished(Err(error), Metadata::default())
    }

    fn finished(
        mut self,
        outcome: Result<Vec<fumehood_core::call::content::Content>, CallError>,
        metadata: Metadata,
    ) -> CallResult {
        let (id, tool) = self.names.take().unwrap_or_default();
        let result = CallResult { id, tool, outcome, metadata };
        self.host.bus().send(|| Event::Finished { result: Arc::new(result.clone()) });
        result
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        if let Some((id, tool)) = self.names.take() {
            let outcome = Err(CallError::cancelled());
            let metadata = Metadata::default();
            let send = || Event::Finished { result: Arc::new(CallResult { id, tool, outcome, metadata }) };
            self.host.bus().send(send);
        }
    }
}

/// Awaits a call, and cancels its token once `cancelled` completes.
async fn until(call: impl Future<Output = CallResult>, token: CancellationToken, cancelled: impl Future) -> CallResult {
    let mut call = pin!(call);
    let mut cancelled = pin!(cancelled);
    let ended = std::future::poll_fn(|cx| match call.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => cancelled.as_mut().poll(cx).map(|_| None),
    })
    .await;
    match ended {
        Some(result) => result,
        None => {
            token.cancel();
            call.await
        }
    }
}
