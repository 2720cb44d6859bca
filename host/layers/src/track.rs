//! A layer around tools that keeps their calls among the running ones.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use fumehood_core::call::CallContext;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::tool::{PendingCall, Stop, Tool, ToolLayer, ToolProvider};

use crate::running_calls::{EndedCall, Entry, RunningCalls, UNKNOWN_TOOL};

/// Tools whose calls are among the running ones. [`TenantTools`](crate::TenantTools) do that themselves.
pub struct TrackedTools {
    tools: Arc<dyn ToolProvider>,
    running: RunningCalls,
}

impl fmt::Debug for TrackedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackedTools").finish_non_exhaustive()
    }
}

impl TrackedTools {
    /// Keeps the calls of `tools` among those of `running`.
    #[must_use]
    pub fn new(tools: Arc<dyn ToolProvider>, running: RunningCalls) -> Self {
        Self { tools, running }
    }
}

impl ToolLayer for TrackedTools {
    fn inner(&self) -> &dyn ToolProvider {
        &*self.tools
    }

    async fn handle(&self, mut call: PendingCall) -> Result<CallResult, Stop> {
        let tool = self.tools.find(call.tool_name());
        let tracked = TrackedCall::begin(&self.running, tool, None, call.context_mut());
        tracked.place();
        tracked.finish(call.run(self.inner()).await)
    }
}

/// A call among the running ones. If it is dropped before it is finished, it counts as cancelled.
pub(crate) struct TrackedCall {
    calls: RunningCalls,
    number: u64,
    entry: Arc<Entry>,
    has_ended: bool,
}

impl TrackedCall {
    /// Adds a call of a tool of a tenant, which is to be run in `context`.
    pub(crate) fn begin(
        calls: &RunningCalls,
        tool: Option<Arc<Tool>>,
        tenant: Option<Arc<str>>,
        context: &mut CallContext,
    ) -> Self {
        let number = calls.next_number();
        let execution = Arc::clone(context.execution.get_or_insert_with(|| calls.id_of(number).into()));
        let entry = Entry::new(execution, tool, tenant, context);
        calls.insert(number, Arc::clone(&entry));
        Self { calls: calls.clone(), number, entry, has_ended: false }
    }

    /// Marks a call of a function of the host as running. The sandbox of another tool reports when it has a place.
    pub(crate) fn place(&self) {
        if self.entry.tool.as_ref().is_some_and(|tool| tool.namespace().is_none()) {
            let _placed_before = self.entry.placed.set((Instant::now(), None));
        }
    }

    /// Removes the call, and sends its result to the subscribers. The result says if an operator stopped it.
    ///
    /// # Errors
    /// Those of `ended`.
    pub(crate) fn finish(mut self, ended: Result<CallResult, Stop>) -> Result<CallResult, Stop> {
        match ended {
            Ok(mut result) => {
                let was_stopped = self.entry.was_stopped.load(Ordering::Relaxed);
                if was_stopped && result.error().is_some_and(|error| error.kind == ErrorKind::Cancelled) {
                    let message = "an operator stopped the call";
                    result.outcome = Err(CallError::new(ErrorKind::Cancelled, message));
                }
                self.end(&result);
                Ok(result)
            }
            Err(stop) => {
                self.fail(CallError::new(ErrorKind::ToolFailed, stop.reason.as_str()));
                Err(stop)
            }
        }
    }

    /// Ends a call that has no result.
    fn fail(&mut self, error: CallError) {
        let tool = self.entry.tool.as_deref().map_or(UNKNOWN_TOOL, Tool::full_name).to_owned();
        let id = self.entry.id.clone();
        let metadata = Metadata::default();
        self.end(&CallResult { id, tool, outcome: Err(error), metadata });
    }

    fn end(&mut self, result: &CallResult) {
        self.has_ended = true;
        self.calls.remove(self.number);
        let Entry { execution, tool, actor, tenant, began, .. } = &*self.entry;
        let tool = tool.as_deref().map(Tool::full_name);
        let actor = actor.as_deref();
        let tenant = tenant.as_ref();
        self.calls.publish(&EndedCall { execution, tool, actor, tenant, elapsed: began.elapsed(), result });
    }
}

impl Drop for TrackedCall {
    fn drop(&mut self) {
        if !self.has_ended {
            self.fail(CallError::cancelled());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use fumehood_core::call::event::Level;
    use fumehood_core::call::{CancellationToken, Usage};

    use super::*;
    use crate::running_calls::{CallPhase, CallSink};

    fn everyone(_: Option<&str>, _: Option<&str>) -> bool {
        true
    }

    #[derive(Default)]
    struct Outcomes(Mutex<Vec<&'static str>>);

    impl CallSink for Outcomes {
        fn record(&self, call: &EndedCall<'_>) {
            self.0.lock().unwrap().push(call.result.error().map_or("ok", |error| error.kind.as_str()));
        }
    }

    fn ended(outcome: Result<(), CallError>) -> Result<CallResult, Stop> {
        let outcome = outcome.map(|()| Vec::new());
        Ok(CallResult { id: String::new(), tool: String::new(), outcome, metadata: Metadata::default() })
    }

    #[test]
    fn calls_wait_run_and_end() {
        let running = RunningCalls::new();
        let outcomes = Arc::new(Outcomes::default());
        running.subscribe(Arc::clone(&outcomes) as Arc<dyn CallSink>);
        let mut context = CallContext { actor: Some(Arc::from("ann")), ..CallContext::default() };
        let call = TrackedCall::begin(&running, None, Some(Arc::from("t")), &mut context);
        assert_eq!((running.counts(), running.list(9, everyone)[0].phase), ((0, 1), CallPhase::Waiting));
        let observer = context.observer.unwrap();
        observer.admitted(Duration::from_secs(5));
        observer.usage(Usage { fuel: 7, peak_memory: 0 });
        observer.log(Level::Info, "half\u{202e}");
        let found = &running.list(9, |tenant, actor| tenant == Some("t") && actor == Some("ann"))[0];
        assert_eq!((found.phase, found.deadline), (CallPhase::Running, Some(Duration::from_secs(5))));
        assert_eq!((found.fuel, found.peak_memory), (Some(7), Some(0)));
        assert_eq!(found.last_line.as_ref().unwrap().to_string(), "half\\u{202e}");
        assert_eq!((running.counts_of("t"), running.counts_of("u")), ((1, 0), (0, 0)));
        assert!(running.list(9, |tenant, _| tenant.is_none()).is_empty() && running.list(0, everyone).is_empty());
        assert!(call.finish(ended(Ok(()))).unwrap().is_ok());
        assert_eq!(running.counts(), (0, 0));
        // A caller that leaves has cancelled its call.
        drop(TrackedCall::begin(&running, None, None, &mut CallContext::default()));
        let stopped = TrackedCall::begin(&running, None, None, &mut CallContext::default());
        assert!(stopped.finish(Err(Stop::new("enough"))).is_err());
        assert_eq!(*outcomes.0.lock().unwrap(), ["ok", "cancelled", "tool_failed"]);
    }

    #[test]
    fn a_tenant_cancels_its_own_calls_only() {
        let running = RunningCalls::new();
        let caller = CancellationToken::new();
        let mut context = CallContext { cancelled: Some(caller.clone()), ..CallContext::default() };
        let call = TrackedCall::begin(&running, None, Some(Arc::from("a")), &mut context);
        let id = running.list(1, everyone)[0].id.clone();
        assert_eq!(context.execution.as_deref(), Some(id.as_str()), "layers below record it");
        assert!(running.find("b", &id).is_empty());
        for wrong in ["", "h-1", &format!("{id}0")] {
            assert!(running.find("a", wrong).is_empty(), "{wrong:?}");
        }
        let number = running.find("a", &id)[0].number;
        assert!(!context.cancelled.as_ref().unwrap().is_cancelled());
        assert!(running.cancel(number) && context.cancelled.unwrap().is_cancelled());
        assert!(!caller.is_cancelled(), "the caller may have other calls");
        drop(call);
        assert!(!running.cancel(number));
    }

    #[test]
    fn an_execution_is_one_of_the_calls_with_a_chosen_id() {
        let running = RunningCalls::new();
        let begin = || {
            let mut context = CallContext { id: "call_1".to_owned(), ..CallContext::default() };
            let call = TrackedCall::begin(&running, None, Some(Arc::from("a")), &mut context);
            (call, context.execution.unwrap())
        };
        let (_first, one) = begin();
        let (_second, two) = begin();
        let ids = |id: &str| running.find("a", id).into_iter().map(|call| call.id).collect::<Vec<_>>();
        assert_eq!(ids("call_1"), [&*one, &*two]);
        assert_eq!(ids(&two), [&*two]);
        assert_eq!(running.find("a", &two)[0].model_call.as_deref(), Some("call_1"));
        // A model may choose the execution of another call as its id.
        let mut context = CallContext { id: two.to_string(), ..CallContext::default() };
        let _third = TrackedCall::begin(&running, None, Some(Arc::from("a")), &mut context);
        assert_eq!(ids(&two), [&*two]);
    }

    #[test]
    fn a_result_says_that_an_operator_stopped_the_call() {
        let running = RunningCalls::new();
        let mut context = CallContext { id: "mine".to_owned(), ..CallContext::default() };
        let call = TrackedCall::begin(&running, None, None, &mut context);
        let found = running.list(1, everyone).remove(0);
        assert_eq!((found.model_call.as_deref(), found.was_stopped), (Some("mine"), false));
        assert!(running.stop(found.number) && !running.stop(found.number + 1));
        assert!(context.cancelled.unwrap().is_cancelled() && running.list(1, everyone)[0].was_stopped);
        let ended = call.finish(ended(Err(CallError::cancelled())));
        assert!(ended.unwrap().error().unwrap().message.to_string().contains("an operator stopped the call"));
    }
}
