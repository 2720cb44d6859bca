//! The supervisor of one component's worker: starts it, restarts it when it has died, and ends it when a call does not
//! stop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::call::CancellationToken;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallError;
use tokio::sync::{Semaphore, oneshot};
use tracing::Span;

use super::launch::{START_TIMEOUT, WorkerLaunch};
use super::link::{CallEnd, Link, Pending};
use super::message::{CallMessage, Loaded, ToWorker};
use super::services::Services;
use crate::call::outcome::{self, Execution};
use crate::call::place::{Place, unless_cancelled};
use crate::call::run::lost_call;
use crate::engine::guest_runtime::{Elapsed, Lost};
use crate::jail::JailReport;
use crate::wasi::Invocation;

/// Time after a deadline or a cancellation before the host ends a worker. A worker enforces both itself; this is long
/// for a healthy worker even on a machine without free processor time.
const CALL_GRACE: Duration = Duration::from_secs(1);
/// Consecutive crashes after which a restart is delayed.
const CRASHES_BEFORE_DELAY: u32 = 3;
/// The first of those delays. Each further one is twice as long as the one before.
const MIN_RESTART_DELAY: Duration = Duration::from_millis(100);
/// Maximum delay before a restart.
const MAX_RESTART_DELAY: Duration = Duration::from_secs(10);
/// Factor from the log limit of a call to the bytes of its messages: log lines take more in a message than their text.
const LOG_MESSAGE_FACTOR: usize = 4;

/// The worker process of one component. Clones share it.
#[derive(Clone)]
pub(crate) struct Worker(Arc<Supervisor>);

struct Supervisor {
    /// Dropped before the other fields, so that the worker ends before what it needs.
    state: Mutex<State>,
    launch: Arc<WorkerLaunch>,
    services: Arc<Services>,
    jail: JailReport,
    /// Permits for the calls that its worker runs at once.
    permits: Arc<Semaphore>,
    calls: AtomicU64,
    /// Held while a worker is started.
    starting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    /// Consecutive workers that died without having answered a call.
    crashes: u32,
    /// The time before which no worker is restarted.
    restart_after: Option<Instant>,
}

impl Worker {
    pub(super) fn new(launch: WorkerLaunch, services: Arc<Services>, jail: JailReport, link: Arc<Link>) -> Self {
        let permits = Arc::new(Semaphore::new(launch.setup.concurrency as usize));
        let state = Mutex::new(State { link: Some(link), ..State::default() });
        let (calls, starting) = (AtomicU64::new(0), tokio::sync::Mutex::default());
        let launch = Arc::new(launch);
        Self(Arc::new(Supervisor { launch, services, jail, permits, calls, state, starting }))
    }

    /// Returns the restrictions that the kernel enforces.
    pub(crate) fn jail(&self) -> JailReport {
        self.0.jail
    }

    /// Returns the id of the worker process, if one is alive.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.0.state().link.as_ref()?.process_id()
    }

    /// Waits for a place in the worker, and among the running calls of the sandbox.
    ///
    /// # Errors
    /// See [`Place::enter`].
    pub(crate) async fn admit(&self, call: &Invocation) -> Result<Place, Execution> {
        Place::enter(self.0.services.shared(), Some(&self.0.permits), call).await
    }

    /// Runs a call that has a place in the worker. Dropping the future ends the call.
    pub(crate) async fn call(&self, place: Place, tool: usize, arguments: String, call: &Invocation) -> Execution {
        let (limits, queued, started) = (call.limits, place.queued, Instant::now());
        let link = match self.0.live_link(started + limits.deadline).await {
            Ok(link) => link,
            Err(error) => return Execution::failed(error, queued, &limits),
        };
        let mut execution = self.0.run(&link, place, tool, arguments, call, started).await;
        execution.metadata.queued = queued;
        execution.metadata.deadline = limits.deadline;
        execution.metadata.duration = started.elapsed();
        execution
    }
}

impl Supervisor {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current worker if it is alive, or starts a new one.
    ///
    /// # Errors
    /// If a restart is delayed beyond `deadline`, or fails.
    async fn live_link(&self, deadline: Instant) -> Result<Arc<Link>, CallError> {
        if let Some(link) = self.current_link() {
            return Ok(link);
        }
        let _starting = self.starting.lock().await;
        if let Some(link) = self.current_link() {
            return Ok(link);
        }
        let delay = self.state().restart_after.map(|until| until.saturating_duration_since(Instant::now()));
        let runtime = self.services.runtime();
        if let Some(delay) = delay.filter(|delay| !delay.is_zero()) {
            if Instant::now() + delay > deadline {
                let message = "the worker process of this tool died several times in a row";
                return Err(CallError::new(ErrorKind::Unavailable, message)
                    .with_hint("call again later, and report it if it goes on: no tool should be able to do that")
                    .with_retry_after(delay));
            }
            runtime.sleep(delay).await.map_err(lost_call)?;
        }
        let link = self.restart().await?;
        self.state().link = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Returns the current worker if it is alive, and records its death otherwise.
    fn current_link(&self) -> Option<Arc<Link>> {
        let link = self.state().link.clone()?;
        if !link.has_ended() {
            return Some(link);
        }
        let mut state = self.state();
        if state.link.as_ref().is_some_and(|current| Arc::ptr_eq(current, &link)) {
            state.link = None;
            state.crashes = state.crashes.saturating_add(1);
            let doublings = state.crashes.checked_sub(CRASHES_BEFORE_DELAY);
            let delay = doublings
                .map(|doublings| MIN_RESTART_DELAY.saturating_mul(1 << doublings.min(10)).min(MAX_RESTART_DELAY));
            state.restart_after = delay.map(|delay| Instant::now() + delay);
        }
        None
    }

    async fn restart(&self) -> Result<Arc<Link>, CallError> {
        let (launch, services) = (Arc::clone(&self.launch), Arc::clone(&self.services));
        let started = self.services.runtime().block(move || launch.start(&services, START_TIMEOUT)).await;
        let host = |message: String| CallError::new(ErrorKind::Host, message);
        match started.map_err(lost_call)? {
            Ok((link, Loaded::Ready { .. })) => Ok(link),
            Ok((_, Loaded::Failed { message, .. })) => {
                Err(host(format!("the worker cannot load the component: {message}")))
            }
            Ok((_, Loaded::NotDescribed(failure))) => Err(host(failure.message)),
            Err(error) => Err(host(error.to_string())),
        }
    }

    /// Runs one call in a worker.
    async fn run(
        &self,
        link: &Arc<Link>,
        place: Place,
        tool: usize,
        arguments: String,
        invocation: &Invocation,
        started: Instant,
    ) -> Execution {
        let limits = invocation.limits;
        if !self.launch.setup.folders.is_empty() {
            link.protect(&self.services.shared().protected.files());
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let message = ToWorker::Call(CallMessage::new(call, tool, arguments, invocation));
        let (answer, wait) = oneshot::channel();
        let pending = Pending {
            answer,
            observer: invocation.observer.clone(),
            output_budget: limits.log.saturating_mul(LOG_MESSAGE_FACTOR),
            usage_at: None,
            deadline: started + limits.deadline,
            span: Span::current(),
            requests: None,
            _permit: Box::new(place),
        };
        if let Err(message) = link.call(call, &message, pending) {
            return Execution::failed(CallError::new(ErrorKind::Host, message), Duration::ZERO, &limits);
        }
        let mut guard = CancelOnDrop { link, call, has_ended: false };
        let ended = self.wait_for_end(link, call, wait, &limits, invocation.cancelled.as_ref()).await;
        guard.has_ended = true;
        match ended {
            Ok(CallEnd::Answered { outcome, cost, requests }) => {
                self.state().crashes = 0;
                let parts = |parts: Vec<_>| parts.into_iter().map(Content::try_from).collect::<Result<Vec<_>, _>>();
                let outcome = outcome.map_err(CallError::from).and_then(parts);
                let mut execution = Execution { outcome, metadata: (*cost).into() };
                if let Some(requests) = requests {
                    requests.finish(&mut execution);
                }
                execution
            }
            Ok(CallEnd::WorkerDied(how)) => Execution::failed(worker_died_error(&how), Duration::ZERO, &limits),
            // The timer fires early only if its runtime is shut down.
            Err(NoAnswer::Elapsed) if started.elapsed() < limits.deadline => {
                Execution::failed(lost_call(Lost::ShutDown), Duration::ZERO, &limits)
            }
            Err(NoAnswer::Elapsed) => Execution::failed(outcome::deadline(&limits), Duration::ZERO, &limits),
            Err(NoAnswer::Cancelled) => Execution::failed(CallError::cancelled(), Duration::ZERO, &limits),
        }
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
                link.notify(&ToWorker::Cancel { call });
                if let Ok(ended) = runtime.within(CALL_GRACE, waiting).await {
                    return Ok(ended);
                }
                link.kill("it was ended because a call in it did not stop when it was cancelled");
                NoAnswer::Cancelled
            }
            Err(Elapsed) => {
                link.kill("it was ended because a call in it did not stop at its deadline");
                NoAnswer::Elapsed
            }
        };
        Err(no_answer)
    }
}

fn worker_died_error(how: &str) -> CallError {
    CallError::new(ErrorKind::Trap, format!("the worker process of the tool died: {how}"))
        .with_hint("the next call starts a new one; a tool that does this again should be looked at before it is used")
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
        self.link.notify(&ToWorker::Cancel { call: self.call });
        let (link, call) = (Arc::clone(self.link), self.call);
        self.link.runtime().spawn(async move {
            tokio::time::sleep(CALL_GRACE).await;
            if link.is_pending(call) {
                link.kill("it was ended because a call in it did not stop when its caller left");
            }
        });
    }
}
