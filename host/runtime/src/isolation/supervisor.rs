//! The supervisor of one component's workers: starts them, restarts those that have died with the calls that may run again, and
//! ends a worker whose call does not stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fumehood_core::call::CancellationToken;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallError;
use fumehood_core::log;
use fumehood_core::text::untrusted::PrintableText;
use tokio::sync::{Semaphore, oneshot};
use tracing::Span;

use super::attempts::{Attempts, Interrupted, SentCall, WorkerCall};
use super::lanes::{Lane, Lanes, Separation};
use super::launch::{START_TIMEOUT, WorkerLaunch};
use super::link::{CallEnd, CallProgress, Link, Pending};
use super::message::{Cost, Failure, Loaded, Part, Parts};
use super::services::{CallRequests, Services};
use crate::call::outcome::{self, Execution};
use crate::call::place::{Place, unless_cancelled};
use crate::call::run::lost_call;
use crate::engine::deadline::Deadline;
use crate::engine::guest_runtime::{Elapsed, FirstSlice, Lost};
use crate::jail::JailReport;
use crate::load::Isolation;
use crate::wasi::Invocation;

/// Time after a deadline or a cancellation before the host ends a worker. A worker enforces both itself; this is long
/// for a healthy worker even on a machine without free processor time.
const CALL_GRACE: Duration = Duration::from_secs(1);
/// Maximum size of the parts of a result that are parsed on the caller's thread, in bytes.
const MAX_INLINE_BYTES: usize = 64 << 10;

/// The worker processes of one component. Clones share them.
#[derive(Clone)]
pub(crate) struct Worker(Arc<Supervisor>);

struct Supervisor {
    /// Dropped before the other fields, so that the workers end before what they need.
    lanes: Lanes,
    launch: Arc<WorkerLaunch>,
    services: Arc<Services>,
    jail: JailReport,
    /// Permits for the calls that run at once.
    permits: Arc<Semaphore>,
    calls: AtomicU64,
}

impl Worker {
    pub(super) fn new(
        launch: WorkerLaunch,
        services: Arc<Services>,
        isolation: Isolation,
        jail: JailReport,
        link: Arc<Link>,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(launch.setup.concurrency as usize));
        let separation = match isolation {
            _ if launch.setup.folders.iter().any(|folder| folder.quota.is_some()) => Separation::Never,
            Isolation::ProcessPerActor => Separation::Always,
            Isolation::Process | Isolation::InProcess | Isolation::InProcessIfSynchronous => Separation::AfterDeath,
        };
        let lanes = Lanes::new(separation, link);
        let launch = Arc::new(launch);
        let calls = AtomicU64::new(0);
        Self(Arc::new(Supervisor { lanes, launch, services, jail, permits, calls }))
    }

    /// Returns the restrictions that the kernel enforces.
    pub(crate) fn jail(&self) -> JailReport {
        self.0.jail
    }

    /// Returns the id of the worker process that actors share, if it is alive.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.0.lanes.shared().link()?.process_id()
    }

    /// Returns the ids of all its worker processes that are alive.
    pub(crate) fn process_ids(&self) -> Vec<u32> {
        let links = self.0.lanes.all().into_iter().filter_map(|lane| lane.link());
        links.filter_map(|link| link.process_id()).collect()
    }

    /// Waits for a place in the worker, and among the running calls of the sandbox.
    ///
    /// # Errors
    /// See [`Place::enter`].
    pub(crate) async fn admit(&self, call: &Invocation) -> Result<Place, Execution> {
        Place::enter(self.0.services.shared(), Some(&self.0.permits), call).await
    }

    /// Runs a call that has a place in the worker, and returns the time by which its result is to be delivered with its
    /// end. Dropping the future ends the call.
    ///
    /// If its worker dies, the call is sent to another one if it had not begun, and runs once more if it is repeatable.
    pub(crate) async fn call(&self, place: Place, call: WorkerCall, invocation: &Invocation) -> (Execution, Deadline) {
        let queued = place.queued;
        let started = Instant::now();
        let (mut execution, deadline) = self.0.call(place, call, invocation).await;
        execution.metadata.queued = queued;
        execution.metadata.deadline = invocation.limits.deadline;
        execution.metadata.duration = started.elapsed();
        (execution, deadline)
    }
}

impl Supervisor {
    async fn call(&self, mut place: Place, call: WorkerCall, invocation: &Invocation) -> (Execution, Deadline) {
        let limits = &invocation.limits;
        let is_repeatable = call.is_repeatable;
        let id = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut sent = SentCall::new(id, call, invocation, self.services.grant());
        let mut attempts = Attempts::default();
        let mut lane = self.lanes.lane_of(invocation.actor.as_ref());
        let mut solo_turn = None;
        // Armed anew when the first worker is there: starting one takes none of the call's time.
        let mut deadline = Deadline::after(Instant::now(), limits.deadline);
        loop {
            let link = match self.live_link(&lane, deadline.at()).await {
                Ok(link) => link,
                Err(error) => return (sent.failed(error, limits), deadline),
            };
            if attempts.is_first() {
                deadline = Deadline::after(Instant::now(), limits.deadline);
            } else {
                sent.set_deadline(deadline.at().saturating_duration_since(Instant::now()));
            }
            let interrupted = match self.run(&lane, &link, place, &sent, invocation, deadline.at()).await {
                Ok(execution) => return (execution, deadline),
                Err(interrupted) => interrupted,
            };
            let _removed = self.current_link(&lane);
            let error = worker_died_error(&interrupted.reason);
            sent.end_attempt();
            let Some(next) = attempts.take_another(interrupted, is_repeatable) else {
                return (sent.failed(error, limits), deadline);
            };
            place = next;
            lane = self.lanes.lane_of(invocation.actor.as_ref());
            if attempts.was_repeated && invocation.actor.is_none() && solo_turn.is_none() {
                lane = Arc::clone(self.lanes.solo());
                let left = deadline.at().saturating_duration_since(Instant::now());
                match self.services.runtime().within(left, self.lanes.solo_turn.lock()).await {
                    Ok(turn) => solo_turn = Some(turn),
                    Err(Elapsed) => return (sent.failed(error, limits), deadline),
                }
            }
            if Instant::now() + lane.restart_delay() >= deadline.at() {
                return (sent.failed(error, limits), deadline);
            }
        }
    }

    /// Returns the worker of a lane if it is alive, or starts a new one.
    ///
    /// # Errors
    /// If a restart is delayed beyond `deadline`, or fails.
    async fn live_link(&self, lane: &Lane, deadline: Instant) -> Result<Arc<Link>, CallError> {
        if let Some(link) = self.current_link(lane) {
            return Ok(link);
        }
        let _starting = lane.starting.lock().await;
        if let Some(link) = self.current_link(lane) {
            return Ok(link);
        }
        let delay = lane.restart_delay();
        if !delay.is_zero() {
            if Instant::now() + delay > deadline {
                let message = "the worker process of this tool died several times in a row";
                return Err(CallError::new(ErrorKind::Unavailable, message)
                    .with_hint("call again later, and report it if it continues: no tool should be able to cause this")
                    .with_retry_after(delay));
            }
            self.services.runtime().sleep(delay).await.map_err(lost_call)?;
        }
        let component = self.services.component();
        let link = self.restart().await.inspect_err(|error| log::emit_worker_not_started(component, &error.message))?;
        log::emit_worker_started(component, link.process_id(), lane.is_shared());
        lane.set_link(&link);
        Ok(link)
    }

    /// Returns the worker of a lane if it is alive, and records its death otherwise.
    fn current_link(&self, lane: &Lane) -> Option<Arc<Link>> {
        let link = lane.link()?;
        let Some(death) = link.death() else { return Some(link) };
        if lane.record_death(&link, death) {
            self.lanes.separate_actors(death);
        }
        None
    }

    async fn restart(&self) -> Result<Arc<Link>, CallError> {
        let launch = Arc::clone(&self.launch);
        let services = Arc::clone(&self.services);
        let started = self.services.runtime().block(move || launch.start(&services, START_TIMEOUT)).await;
        match started.map_err(lost_call)? {
            Ok((link, Loaded::Ready { .. })) => Ok(link),
            Ok((_, Loaded::Failed { message, .. })) => {
                Err(host_error(format!("the worker cannot load the component: {message}")))
            }
            Ok((_, Loaded::NotDescribed(failure) | Loaded::NotListed(failure))) => Err(host_error(failure.0.message)),
            Err(error) => Err(host_error(error.to_string())),
        }
    }

    /// Runs one call in a worker.
    ///
    /// # Errors
    /// If the worker died before it answered.
    async fn run(
        &self,
        lane: &Lane,
        link: &Arc<Link>,
        place: Place,
        sent: &SentCall,
        invocation: &Invocation,
        deadline: Instant,
    ) -> Result<Execution, Interrupted> {
        let limits = sent.limits;
        let failed = |error| Ok(sent.failed(error, &invocation.limits));
        if !self.launch.setup.folders.is_empty() {
            link.protect(&self.services.shared().protected.files());
        }
        let call = sent.id;
        let (answer, wait) = oneshot::channel();
        let pending = Pending {
            answer,
            observer: invocation.observer.clone(),
            actor: invocation.actor.clone(),
            output_budget: limits.log,
            usage: Arc::clone(&sent.usage),
            usage_at: None,
            deadline,
            span: Span::current(),
            requests: None,
            capabilities: self.services.capability_calls(invocation, &limits, deadline),
            place,
            progress: CallProgress::Began,
        };
        if let Err(too_large) = link.call(call, &sent.message, &limits, pending) {
            return failed(CallError::new(ErrorKind::Host, too_large));
        }
        let mut guard = CancelOnDrop { link, call, has_ended: false };
        let ended = self.wait_for_end(link, call, wait, &limits, invocation.cancelled.as_ref()).await;
        guard.has_ended = true;
        match ended {
            Ok(CallEnd::Answered { outcome, cost, requests, capabilities }) => {
                lane.record_answer();
                let mut execution = self.to_execution(outcome, *cost, requests, &limits).await;
                if let Some(capabilities) = capabilities {
                    capabilities.finish(&mut execution);
                }
                let fuel_used = &mut execution.metadata.fuel_used;
                *fuel_used = fuel_used.saturating_add(sent.spent.fuel);
                Ok(execution)
            }
            Ok(CallEnd::WorkerDied { reason, has_begun, place }) => Err(Interrupted { reason, has_begun, place }),
            // The timer fires early only if its runtime is shut down.
            Err(NoAnswer::Elapsed) if Instant::now() < deadline => failed(lost_call(Lost::ShutDown)),
            Err(NoAnswer::Elapsed) => failed(outcome::deadline(&invocation.limits)),
            Err(NoAnswer::Cancelled) => failed(CallError::cancelled()),
        }
    }

    async fn to_execution(
        &self,
        outcome: Result<Parts, Failure>,
        cost: Cost,
        requests: Option<Arc<CallRequests>>,
        limits: &Limits,
    ) -> Execution {
        let outcome = match outcome {
            Ok(parts) => self.read_parts(parts, limits).await,
            Err(Failure(error)) => Err(error),
        };
        let mut execution = Execution { outcome, metadata: cost.into() };
        if let Some(requests) = requests {
            requests.finish(&mut execution, self.services.runtime());
        }
        execution
    }

    /// Converts the parts of a result, on the guest threads if there is much to parse.
    ///
    /// # Errors
    /// If they are too large, or one is not what it says.
    async fn read_parts(&self, parts: Parts, limits: &Limits) -> Result<Vec<Content>, CallError> {
        let bytes = parts.iter().map(Part::bytes).sum::<usize>();
        outcome::check_size(parts.len(), bytes, limits)?;
        let read = move || parts.into_iter().map(Content::try_from).collect();
        if bytes <= MAX_INLINE_BYTES {
            return read();
        }
        let reading = Box::pin(async move { read() });
        self.services.runtime().run(FirstSlice::Elsewhere, reading).await.map_err(lost_call)?
    }

    /// Waits for the end of a call.
    ///
    /// # Errors
    /// If the worker did not answer in time. It has been ended in that case.
    async fn wait_for_end(
        &self,
        link: &Arc<Link>,
        call: u64,
        wait: oneshot::Receiver<CallEnd>,
        limits: &Limits,
        cancelled: Option<&CancellationToken>,
    ) -> Result<CallEnd, NoAnswer> {
        let runtime = self.services.runtime();
        let mut waiting = std::pin::pin!(link.wait(wait));
        let until = limits.deadline + CALL_GRACE;
        // Most calls are over at once, and setting a timer costs more than one poll.
        if let std::task::Poll::Ready(ended) =
            std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx))).await
        {
            return Ok(ended);
        }
        let no_answer = match runtime.within(until, unless_cancelled(cancelled, waiting.as_mut())).await {
            Ok(Some(ended)) => return Ok(ended),
            Ok(None) => {
                link.cancel(call);
                if let Ok(ended) = runtime.within(CALL_GRACE, waiting).await {
                    return Ok(ended);
                }
                link.end("it was killed because a call in it did not stop when it was cancelled");
                NoAnswer::Cancelled
            }
            Err(Elapsed) => {
                link.end("it was killed because a call in it did not stop at its deadline");
                NoAnswer::Elapsed
            }
        };
        Err(no_answer)
    }
}

fn worker_died_error(how: &str) -> CallError {
    CallError::new(ErrorKind::Trap, format!("the worker process of the tool died: {how}"))
        .with_hint("the next call starts a new process; if this happens again, review the tool before you use it")
}

fn host_error(message: impl Into<PrintableText>) -> CallError {
    CallError::new(ErrorKind::Host, message)
}

/// Errors of a worker that did not answer in time.
enum NoAnswer {
    Elapsed,
    Cancelled,
}

/// A guard of a call whose caller may stop waiting. When it is dropped early, the call is cancelled, and the worker is
/// ended if the call does not stop.
struct CancelOnDrop<'a> {
    link: &'a Arc<Link>,
    call: u64,
    has_ended: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        self.link.cancel(self.call);
        let link = Arc::clone(self.link);
        let call = self.call;
        self.link.runtime().spawn(async move {
            tokio::time::sleep(CALL_GRACE).await;
            if link.is_pending(call) {
                link.end("it was killed because a call in it did not stop when its caller left");
            }
        });
    }
}
