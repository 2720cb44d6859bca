//! A layer around tools that knows the running calls of all protocols, and can stop each of them.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::{Level, Progress};
use fumehood_core::call::result::{CallError, CallResult, RequestReport};
use fumehood_core::call::{Call, CallContext, CancellationToken, Observer};
use fumehood_core::text::sanitize::{printable, truncate_str};
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;
use fumehood_core::tool::{Changes, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall};

use super::statistics::{FinishedCall, Statistics};

/// Maximum length of the last line of a call that is kept, in bytes.
const MAX_LINE_BYTES: usize = 200;

/// A function that returns the usual deadline of a tool's calls, by the tool's full name.
type DeadlineOf = Arc<dyn Fn(&str) -> Option<Duration> + Send + Sync>;

/// Tools whose running calls can be listed and stopped. Cheap to clone; clones share their calls.
#[derive(Clone)]
pub struct LiveTools {
    tools: Arc<dyn ToolProvider>,
    calls: Arc<LiveCalls>,
}

impl fmt::Debug for LiveTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveTools").finish_non_exhaustive()
    }
}

/// The running calls, and the statistics of those that have ended.
pub(crate) struct LiveCalls {
    deadline_of: DeadlineOf,
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, Entry>>,
    statistics: Mutex<Statistics>,
    started: Instant,
}

struct Entry {
    tool: String,
    actor: Option<Arc<str>>,
    client: Option<String>,
    started: Instant,
    deadline: Option<Duration>,
    cancelled: CancellationToken,
    was_stopped: bool,
    said: Arc<LastSaid>,
}

/// A running call, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LiveCall {
    pub(crate) number: u64,
    pub(crate) tool: PrintableText,
    pub(crate) actor: Option<PrintableText>,
    pub(crate) client: Option<PrintableText>,
    pub(crate) elapsed: Duration,
    pub(crate) deadline: Option<Duration>,
    pub(crate) was_stopped: bool,
    /// The part of its work that it reports as done, 0.0 to 1.0.
    pub(crate) fraction: Option<f64>,
    /// Its last log line or progress report.
    pub(crate) said: Option<PrintableText>,
}

/// Keeps the last report of a call, and passes all of them on.
#[derive(Default)]
struct LastSaid {
    next: Option<Arc<dyn Observer>>,
    last: Mutex<(Option<f64>, Option<PrintableText>)>,
}

impl LastSaid {
    fn lock(&self) -> MutexGuard<'_, (Option<f64>, Option<PrintableText>)> {
        // No code that holds the lock can panic half-way.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_line(&self, line: &str) {
        self.lock().1 = Some(truncate_str(line, MAX_LINE_BYTES).into());
    }
}

impl Observer for LastSaid {
    fn log(&self, level: Level, message: &str) {
        self.set_line(message);
        self.next.iter().for_each(|next| next.log(level, message));
    }

    fn progress(&self, progress: Progress) {
        if progress.fraction.is_some() {
            self.lock().0 = progress.fraction;
        }
        progress.message.iter().for_each(|message| self.set_line(message));
        self.next.iter().for_each(|next| next.progress(progress.clone()));
    }

    fn request(&self, request: RequestReport) {
        self.next.iter().for_each(|next| next.request(request.clone()));
    }
}

/// A place among the running calls, which is left when it is dropped.
struct Place<'a> {
    calls: &'a LiveCalls,
    number: u64,
    started: Instant,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.number);
    }
}

impl LiveTools {
    /// Wraps tools. `deadline_of` returns the usual deadline of a tool's calls, by the tool's full name.
    pub fn new(
        tools: Arc<dyn ToolProvider>,
        deadline_of: impl Fn(&str) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        let calls = LiveCalls {
            deadline_of: Arc::new(deadline_of),
            next: AtomicU64::default(),
            running: Mutex::default(),
            statistics: Mutex::default(),
            started: Instant::now(),
        };
        Self { tools, calls: Arc::new(calls) }
    }

    pub(crate) fn calls(&self) -> &Arc<LiveCalls> {
        &self.calls
    }

    /// Adds a call to the running ones, and returns its place, the token that stops it, and that of its caller.
    fn enter(
        &self,
        tool: &str,
        context: &mut CallContext,
    ) -> (Place<'_>, CancellationToken, Option<CancellationToken>) {
        let number = self.calls.next.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let (started, cancelled) = (Instant::now(), CancellationToken::new());
        let said = Arc::new(LastSaid { next: context.observer.take(), ..LastSaid::default() });
        let entry = Entry {
            tool: tool.to_owned(),
            actor: context.actor.clone(),
            client: context.client.clone(),
            started,
            deadline: context.limits.map(|limits| limits.deadline).or_else(|| (self.calls.deadline_of)(tool)),
            cancelled: cancelled.clone(),
            was_stopped: false,
            said: Arc::clone(&said),
        };
        context.observer = Some(said);
        // A token of its own: that of the caller may be for several calls.
        let caller = context.cancelled.replace(cancelled.clone());
        self.calls.lock().insert(number, entry);
        (Place { calls: &self.calls, number, started }, cancelled, caller)
    }
}

impl Place<'_> {
    /// Counts the result, and says in it if an operator stopped the call.
    fn finish(self, result: CallResult) -> CallResult {
        let was_stopped = self.calls.lock().get(&self.number).is_some_and(|entry| entry.was_stopped);
        let outcome = match result.outcome {
            Err(error) if was_stopped && error.kind == ErrorKind::Cancelled => {
                Err(CallError::new(error.kind, "an operator stopped the call from the dashboard"))
            }
            outcome => outcome,
        };
        let result = CallResult { outcome, ..result };
        let finished = FinishedCall::new(&result, now(), self.started.elapsed());
        self.calls.lock_statistics().add(finished);
        result
    }
}

/// Awaits a call, and stops it once its caller does not want it any more.
async fn await_call<T>(call: impl Future<Output = T>, own: &CancellationToken, caller: Option<CancellationToken>) -> T {
    let Some(caller) = caller else { return call.await };
    let mut call = pin!(call);
    tokio::select! {
        biased;
        result = &mut call => result,
        () = caller.cancelled() => {
            own.cancel();
            call.await
        }
    }
}

impl ToolProvider for LiveTools {
    fn kind(&self) -> ProviderKind {
        self.tools.kind()
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        self.tools.tools()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.tools.find(name)
    }

    fn call(&self, call: ValidatedCall, mut context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let (place, own, caller) = self.enter(call.tool().full_name(), &mut context);
            let result = await_call(self.tools.call(call, context), &own, caller).await?;
            Ok(place.finish(result))
        })
    }

    fn changes(&self) -> Changes {
        self.tools.changes()
    }

    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        Box::pin(async move {
            let Call { tool, arguments, mut context } = call;
            let (place, own, caller) = self.enter(&tool, &mut context);
            let result = await_call(self.tools.dispatch(Call { tool, arguments, context }), &own, caller).await;
            place.finish(result)
        })
    }
}

impl LiveCalls {
    /// Returns the number of running calls, and the oldest of them.
    pub(crate) fn list(&self, max: usize) -> (usize, Vec<LiveCall>) {
        let running = self.lock();
        let shown = running.iter().take(max).map(|(number, entry)| {
            let (fraction, said) = entry.said.lock().clone();
            LiveCall {
                number: *number,
                tool: entry.tool.as_str().into(),
                actor: entry.actor.as_deref().map(PrintableText::from),
                client: entry.client.as_deref().map(PrintableText::from),
                elapsed: entry.started.elapsed(),
                deadline: entry.deadline,
                was_stopped: entry.was_stopped,
                fraction,
                said,
            }
        });
        (running.len(), shown.collect())
    }

    /// Stops a running call. Returns the name of its tool; `None` if there is no such call.
    pub(crate) fn stop(&self, number: u64) -> Option<String> {
        let (tool, cancelled) = {
            let mut running = self.lock();
            let entry = running.get_mut(&number)?;
            entry.was_stopped = true;
            (printable(&entry.tool).into_owned(), entry.cancelled.clone())
        };
        // Without the lock, which whoever it wakes may want.
        cancelled.cancel();
        Some(tool)
    }

    pub(crate) fn lock_statistics(&self) -> MutexGuard<'_, Statistics> {
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since the server started.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        // No code that holds the lock can panic half-way.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time now.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
