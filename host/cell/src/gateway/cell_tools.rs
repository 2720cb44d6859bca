//! The provider whose calls run at workers. The tools are those of another provider, which is not called.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{CallContext, Observer};
use fumehood_core::dependency::{Dependency, Measurement, Metric};
use fumehood_core::log;
use fumehood_core::tool::{Changes, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::attempt::{OutgoingCall, remaining};
use super::outcome::{error_of, failed_at, failed_result, no_worker, result_of};
use super::queued_call::{CallQueue, QueuedCall};
use super::sessions::Sessions;
use crate::error::CellError;
use crate::link::{Link, NodeOptions};
use crate::protocol::{
    ANNOUNCE_EVERY, AttemptId, Candidate, Conclusion, GatewayCalls, GatewayEffect, Introductions, NoWorker, Offer,
    OpenCall, RetryPlan, Roster, ToWorker, WorkerName,
};
use crate::worker::{KeptValues, LimitsOf};

/// Time between two looks at what is due.
const TICK: Duration = Duration::from_millis(20);
/// Maximum number of messages that are taken before anything else is looked at.
const MAX_BATCH: usize = 64;

/// Options of a gateway.
#[derive(Clone)]
pub struct GatewayOptions {
    /// The names of components whose calls run in this process.
    pub local: BTreeSet<String>,
    /// True if a call of a tool that says it is read-only or idempotent is sent to another worker, once, when its worker is
    /// lost.
    pub retry_repeatable: bool,
    /// Returns the limits of a tool's calls.
    pub limits: LimitsOf,
    /// The values that its tools keep.
    pub kept_values: KeptValues,
    /// Receives results that arrive after their call ended.
    pub on_late: Arc<dyn Fn(LateResult) + Send + Sync>,
}

impl fmt::Debug for GatewayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local, retry_repeatable, limits: _, kept_values, on_late: _ } = self;
        f.debug_struct("GatewayOptions")
            .field("local", local)
            .field("retry_repeatable", retry_repeatable)
            .field("kept_values", kept_values)
            .finish_non_exhaustive()
    }
}

/// A result that arrived after its call ended. Its caller was told another end, and is not told again.
#[derive(Debug, Clone)]
pub struct LateResult {
    /// The worker.
    pub worker: String,
    /// The result; `None` if it cannot be read.
    pub result: Option<CallResult>,
}

/// The tools of a provider, with their calls at the workers of a cell.
pub struct CellTools {
    inner: Arc<Inner>,
    /// Ends with the provider.
    _reader: AbortOnDropHandle<()>,
}

pub(super) struct Inner {
    tools: Arc<dyn ToolProvider>,
    options: GatewayOptions,
    pub(super) link: Link,
    pub(super) sessions: Sessions,
    began: Instant,
    /// The queue of jobs, once it was opened.
    jobs: OnceLock<Arc<dyn CallQueue>>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) calls: GatewayCalls,
    pub(super) introductions: Introductions,
    pub(super) roster: Roster,
    pub(super) waiting: HashMap<AttemptId, PendingAttempt>,
    /// Number of times that a worker was lost.
    losses: u64,
}

/// The caller of an attempt.
pub(super) struct PendingAttempt {
    pub(super) tell: oneshot::Sender<Conclusion<Bytes>>,
    pub(super) worker: WorkerName,
    pub(super) run: u64,
    /// The time that the call had when it was sent.
    pub(super) deadline: Duration,
    pub(super) observer: Option<Arc<dyn Observer>>,
}

impl fmt::Debug for CellTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CellTools").field("name", &self.inner.link.name()).finish_non_exhaustive()
    }
}

impl CellTools {
    /// Joins a cell as a gateway for these tools.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn join(
        node: NodeOptions,
        tools: Arc<dyn ToolProvider>,
        options: GatewayOptions,
    ) -> Result<Self, CellError> {
        let run = getrandom::u64().map_err(CellError::Random)?;
        let link = Link::connect(node).await?;
        let mut messages = link.subscribe(&format!("gateway.{}", link.name())).await?;
        let mut announcements = link.subscribe("workers").await?;
        let sessions = Sessions::new(run);
        let began = Instant::now();
        let jobs = OnceLock::new();
        let state = Mutex::default();
        let inner = Arc::new(Inner { tools, options, link, sessions, began, jobs, state });
        let reader = Arc::clone(&inner);
        let reader = tokio::spawn(async move {
            let mut tick = tokio::time::interval(TICK);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    Some(message) = messages.next() => {
                        reader.receive(&message.payload);
                        // Those that wait are taken at once: being polled costs more than a message does.
                        for _ in 0..MAX_BATCH {
                            let Some(Some(message)) = messages.next().now_or_never() else { break };
                            reader.receive(&message.payload);
                        }
                    }
                    Some(announcement) = announcements.next() => reader.receive_announcement(&announcement.payload),
                    _ = tick.tick() => reader.tick(),
                }
            }
        });
        Ok(Self { inner, _reader: AbortOnDropHandle::new(reader) })
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Puts calls with a job in their context into this queue from now on.
    pub(crate) fn set_queue(&self, queue: Arc<dyn CallQueue>) {
        let _set_before = self.inner.jobs.set(queue);
    }

    pub(crate) fn link(&self) -> &Link {
        &self.inner.link
    }

    /// Returns whether the calls of a tool run at workers, by its full name.
    #[must_use]
    pub fn is_remote(&self, tool: &str) -> bool {
        self.inner.tools.find(tool).is_some_and(|tool| self.inner.remote_offer(&tool).is_some())
    }

    /// Returns the number of workers that announce themselves.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.inner.state().roster.len()
    }

    /// Waits until a worker announces itself, for `time` at most, and then until every worker had the time to. Returns whether
    /// there is one.
    pub async fn wait_for_workers(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while self.workers() == 0 && Instant::now() < until {
            tokio::time::sleep(TICK).await;
        }
        tokio::time::sleep_until(until.min(Instant::now() + ANNOUNCE_EVERY * 2)).await;
        self.workers() > 0
    }
}

static CONNECTED: Metric = Metric::gauge("cell_connected", "1 if NATS can be reached, else 0");
static WORKERS: Metric = Metric::gauge("cell_workers", "Workers that announce themselves");
static WORKERS_LOST: Metric = Metric::counter("cell_workers_lost", "Times that a worker left without a word");
static WORKER_PLACES: Metric = Metric::gauge("cell_worker_places", "Calls that a worker takes at once");
static WORKER_CALLS: Metric = Metric::gauge("cell_worker_calls", "Calls that run at a worker, from all gateways");

impl Dependency for CellTools {
    fn outage(&self) -> Option<&'static str> {
        let inner = &self.inner;
        if !inner.link.is_connected() {
            return Some("nats");
        }
        let is_needed = || inner.tools.tools().iter().any(|tool| inner.remote_offer(tool).is_some());
        (!inner.state().roster.has_worker() && is_needed()).then_some("workers")
    }

    fn metrics(&self) -> Vec<&'static Metric> {
        vec![&CONNECTED, &WORKERS, &WORKERS_LOST, &WORKER_PLACES, &WORKER_CALLS]
    }

    #[allow(clippy::cast_precision_loss, reason = "a metric needs no more than 52 bits")]
    fn measurements(&self) -> Vec<Measurement> {
        let is_connected = self.inner.link.is_connected();
        let state = self.inner.state();
        let mut measured = vec![
            CONNECTED.value(if is_connected { 1.0 } else { 0.0 }),
            WORKERS.value(state.roster.len() as f64),
            WORKERS_LOST.value(state.losses as f64),
        ];
        for (worker, announcement) in state.roster.iter() {
            let places = if announcement.draining { 0 } else { announcement.places };
            measured.push(WORKER_PLACES.value(f64::from(places)).label("worker", worker));
            measured.push(WORKER_CALLS.value(f64::from(announcement.running)).label("worker", worker));
        }
        measured
    }
}

impl Inner {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn open(&self, attempt: AttemptId, call: OpenCall, waiting: PendingAttempt) {
        let mut state = self.state();
        state.calls.open(self.now(), attempt, call);
        state.waiting.insert(attempt, waiting);
    }

    pub(super) fn withdraw(&self, attempt: AttemptId) {
        let mut state = self.state();
        state.calls.withdraw(attempt);
        state.waiting.remove(&attempt);
    }

    pub(super) fn cancel(&self, attempt: AttemptId) {
        let effects = self.state().calls.cancel(self.now(), attempt);
        self.carry_out(effects);
    }

    /// Sends a message to a run of a worker that there is a session with.
    pub(super) fn send_to(&self, worker: &WorkerName, run: u64, message: &ToWorker) {
        if let Some(session) = self.sessions.latest(worker, run) {
            self.link.send_in(&session, &format!("worker.{worker}"), message, b"");
        }
    }

    /// Sends no more calls to a run of a worker, until it has announced itself and answered.
    fn forget(&self, worker: &WorkerName, run: u64) {
        self.sessions.retire(worker, run);
        let mut state = self.state();
        state.introductions.forget(worker, run);
        if state.roster.forget(worker, run) {
            state.losses += 1;
            log::emit_cell_left(worker, "it lost a call, or was lost with one");
        }
    }

    fn choose(&self, offer: &Offer, plan: &RetryPlan) -> Result<Candidate, NoWorker> {
        if !self.link.is_connected() {
            return Err(NoWorker::Disconnected);
        }
        let random = getrandom::u64().unwrap_or_default();
        let state = self.state();
        state.roster.choose(offer, random, |worker| state.calls.open_at(worker), |worker| plan.is_tried(worker))
    }

    fn tick(&self) {
        let now = self.now();
        let effects = {
            let mut state = self.state();
            for worker in state.roster.on_tick(now) {
                state.losses += 1;
                log::emit_cell_left(&worker, "it has not announced itself for a while");
            }
            state.calls.on_tick(now)
        };
        self.carry_out(effects);
    }

    pub(super) fn carry_out(&self, effects: Vec<GatewayEffect<Bytes>>) {
        for effect in effects {
            match effect {
                GatewayEffect::Send { worker, message } => {
                    if let Some(session) = self.sessions.newest(&worker) {
                        self.link.send_in(&session, &format!("worker.{worker}"), &message, b"");
                    }
                }
                GatewayEffect::Conclude { attempt, conclusion } => {
                    let waiting = self.state().waiting.remove(&attempt);
                    if let (Some(waiting), Conclusion::Interrupted(_)) = (&waiting, &conclusion) {
                        self.forget(&waiting.worker, waiting.run);
                    }
                    // A caller that is gone is not told.
                    let _gone = waiting.map(|waiting| waiting.tell.send(conclusion));
                }
                GatewayEffect::Late { attempt, worker, result } => {
                    let worker = worker.to_string();
                    tracing::warn!(target: "fumehood::cell", %attempt, worker, "a result arrived after the end of its call");
                    let result = serde_json::from_slice(&result).ok();
                    (self.options.on_late)(LateResult { worker, result });
                }
            }
        }
    }

    /// Runs a call at a worker, or at another one if the first did not begin.
    async fn call(self: &Arc<Self>, call: ValidatedCall, context: CallContext, offer: Offer) -> CallResult {
        let began = Instant::now();
        let tool = Arc::clone(call.tool());
        let id = context.id.clone();
        let bytes = call.to_text().len();
        if bytes > self.link.max_body_bytes() {
            let message =
                format!("the arguments have {bytes} bytes; the maximum of NATS is {}", self.link.max_body_bytes());
            let error = CallError::new(ErrorKind::InvalidArguments, message)
                .with_hint("the tool did not run; send less, or raise `max_payload` of the NATS server");
            return failed_result(&id, &tool, error);
        }
        let (limits, repeatable) = self.terms_of(&tool, &context);
        let mut plan = RetryPlan::new(repeatable);
        let mut last = None;
        let granted = limits;
        while let Some(limits) = remaining(granted, began.elapsed()) {
            let candidate = match self.choose(&offer, &plan) {
                Ok(candidate) => candidate,
                Err(reason) => {
                    let unplaced = || failed_result(&id, &tool, no_worker(reason, tool.full_name()));
                    return last.unwrap_or_else(unplaced);
                }
            };
            let outgoing = OutgoingCall { call: &call, context: &context, offer: &offer, granted, limits };
            let conclusion = outgoing.run(self, &candidate).await;
            if let Conclusion::Finished(body) = &conclusion {
                self.state().roster.on_ended(&candidate.worker);
                return result_of(body, &id, &tool, &candidate.worker, limits.output);
            }
            let error = error_of(&conclusion, &candidate.worker, tool.full_name());
            let failed = failed_at(&candidate.worker, &id, &tool, error);
            if !plan.on_conclusion(candidate.worker, &conclusion) {
                return failed;
            }
            last = Some(failed);
        }
        last.unwrap_or_else(|| failed_result(&id, &tool, no_worker(NoWorker::Full, tool.full_name())))
    }

    /// Returns the limits of a call, and whether another worker may begin it once more.
    fn terms_of(&self, tool: &Tool, context: &CallContext) -> (Limits, bool) {
        let limits = context.limits.unwrap_or_else(|| (self.options.limits)(tool));
        (limits, self.options.retry_repeatable && is_repeatable(tool))
    }

    /// Returns what a call of this tool needs of a worker; `None` if it runs in this process.
    fn remote_offer(&self, tool: &Tool) -> Option<Offer> {
        let is_local = tool.namespace().is_none_or(|name| self.options.local.contains(name.as_str()));
        self.options.kept_values.offer_of(tool).filter(|_| !is_local)
    }
}

impl ToolProvider for CellTools {
    fn kind(&self) -> ProviderKind {
        self.inner.tools.kind()
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        self.inner.tools.tools()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.inner.tools.find(name)
    }

    fn call(&self, call: ValidatedCall, mut context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let Some(offer) = self.inner.remote_offer(call.tool()) else { return self.inner.tools.call(call, context) };
        Box::pin(async move {
            if context.id.is_empty() {
                context.id = format!("{:016x}", getrandom::u64().unwrap_or_default());
            }
            let name = call.tool().full_name();
            if !self.inner.tools.find(name).is_some_and(|tool| Arc::ptr_eq(&tool, call.tool())) {
                let id = context.id;
                let tool = name.to_owned();
                let metadata = Metadata::default();
                return Ok(CallResult { id, tool, outcome: Err(CallError::replaced()), metadata });
            }
            match (context.job, self.inner.jobs.get()) {
                (Some(job), Some(queue)) => {
                    let (limits, repeatable) = self.inner.terms_of(call.tool(), &context);
                    let queued = QueuedCall { call: &call, context: &context, offer, limits, repeatable };
                    Ok(queue.run(job, queued).await)
                }
                _ => Ok(self.inner.call(call, context, offer).await),
            }
        })
    }

    fn changes(&self) -> Changes {
        self.inner.tools.changes()
    }
}

/// Returns whether a tool says that running it twice does no harm.
fn is_repeatable(tool: &Tool) -> bool {
    let annotations = &tool.definition().annotations;
    annotations.read_only == Some(true) || annotations.idempotent == Some(true)
}
