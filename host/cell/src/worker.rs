//! A worker: runs the calls that gateways send, in the sandbox of this process.

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::{Level, Progress};
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{Arguments, CallContext, CancellationToken, Observer};
use fumehood_core::tool::{InvalidCall, MAX_INLINE_STEPS, Tool, ToolProvider, ValidatedCall};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;

use crate::error::CellError;
use crate::identity::{Frame, Role};
use crate::link::{Link, NodeOptions};
use crate::protocol::{
    ANNOUNCE_EVERY, Admission, Announcement, AttemptId, CallGrant, Offer, ToGateway, ToWorker, WorkerCalls,
    WorkerEffect,
};

/// Time between two looks at what is due while calls run.
const BUSY_TICK: Duration = Duration::from_millis(10);
/// Time between two looks at what is due while none runs.
const IDLE_TICK: Duration = Duration::from_millis(50);
/// Time for which a worker that takes no more calls still says so, to gateways that have not heard it.
const DRAIN_LINGER: Duration = Duration::from_millis(300);
/// Time that cancelled guests have to stop when the worker ends.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A function that returns the limits of a tool's calls in this process.
pub type LimitsOf = Arc<dyn Fn(&Tool) -> Limits + Send + Sync>;

/// A worker of a cell.
#[derive(Clone)]
pub struct Worker {
    inner: Arc<Inner>,
}

struct Inner {
    link: Link,
    tools: Arc<dyn ToolProvider>,
    limits: LimitsOf,
    places: usize,
    began: Instant,
    state: Mutex<State>,
}

struct State {
    calls: WorkerCalls,
    tokens: HashMap<AttemptId, CancellationToken>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("name", &self.inner.link.name()).finish_non_exhaustive()
    }
}

impl Worker {
    /// Joins a cell with these tools and so many places for calls. Calls arrive once it [serves](Self::serve).
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn join(
        options: NodeOptions,
        tools: Arc<dyn ToolProvider>,
        limits: LimitsOf,
        places: usize,
    ) -> Result<Self, CellError> {
        let run = getrandom::u64().map_err(CellError::Random)?;
        let link = Link::connect(options).await?;
        let state = Mutex::new(State { calls: WorkerCalls::new(run, places), tokens: HashMap::new() });
        Ok(Self { inner: Arc::new(Inner { link, tools, limits, places, began: Instant::now(), state }) })
    }

    /// Runs calls until `stop` completes. Then takes no more, lets the running ones end for `grace` at most, and cancels the
    /// rest.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn serve(&self, stop: impl Future, grace: Duration) -> Result<(), CellError> {
        let inner = &self.inner;
        let mut messages = inner.link.subscribe(&format!("worker.{}", inner.link.name())).await?;
        let mut stop = std::pin::pin!(stop.fuse());
        let (mut draining, mut announced) = (None::<Instant>, None::<Instant>);
        let mut was_full = false;
        loop {
            let is_full = inner.state().calls.running() >= inner.places;
            let has_place_again = std::mem::replace(&mut was_full, is_full) && !is_full;
            if has_place_again || announced.is_none_or(|at| at.elapsed() >= ANNOUNCE_EVERY) {
                inner.announce();
                announced = Some(Instant::now());
            }
            let is_idle = inner.state().calls.running() == 0;
            let drained = draining.map(|since| since.elapsed());
            if drained.is_some_and(|time| (is_idle && time >= DRAIN_LINGER) || time >= grace.max(DRAIN_LINGER)) {
                break;
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep(if is_idle { IDLE_TICK } else { BUSY_TICK }) => inner.tick(),
                _ = &mut stop, if draining.is_none() => {
                    inner.state().calls.drain();
                    announced = None;
                    draining = Some(Instant::now());
                }
                message = messages.next() => match message {
                    Some(message) => Inner::receive(inner, &message.payload),
                    None => return Err(CellError::Closed),
                },
            }
            inner.tick();
        }
        self.inner.cancel_all().await;
        inner.link.flush().await;
        Ok(())
    }

    /// Returns the number of calls that run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.inner.state().calls.running()
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn announce(&self) {
        let offers = offers(self.tools.as_ref());
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let announcement = {
            let State { calls, .. } = &*self.state();
            Announcement {
                ticket: calls.ticket(),
                places: count(self.places),
                running: count(calls.running()),
                draining: calls.is_draining(),
                offers,
            }
        };
        self.link.send(Role::Announcer, ("workers", ""), announcement, b"");
    }

    fn tick(&self) {
        let effects = self.state().calls.on_tick(self.now());
        for effect in effects {
            match effect {
                WorkerEffect::Send { gateway, message } => self.tell(&gateway, message, b""),
                WorkerEffect::Cancel(attempt) => self.cancel(attempt),
            }
        }
    }

    fn tell(&self, gateway: &str, message: ToGateway, body: &[u8]) {
        self.link.send(Role::Worker, (&format!("gateway.{gateway}"), gateway), message, body);
    }

    fn cancel(&self, attempt: AttemptId) {
        if let Some(token) = self.state().tokens.get(&attempt) {
            token.cancel();
        }
    }

    /// Acts upon a message of a gateway.
    fn receive(inner: &Arc<Self>, bytes: &[u8]) {
        let Frame { envelope, body } = match inner.link.open::<ToWorker>(bytes, Role::Gateway) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(target: "fumehood::cell", "ignored {error}");
                return;
            }
        };
        let gateway: Arc<str> = envelope.from.into();
        match envelope.message {
            ToWorker::Call(grant) => Self::begin(inner, gateway, *grant, body),
            ToWorker::Cancel { attempt } => {
                let is_running = inner.state().calls.on_cancel(inner.now(), &gateway, attempt);
                if is_running {
                    inner.cancel(attempt);
                }
            }
            ToWorker::Alive => inner.state().calls.on_alive(inner.now(), &gateway),
            ToWorker::Unknown => {}
        }
    }

    /// Runs a call, or says why not.
    fn begin(inner: &Arc<Self>, gateway: Arc<str>, grant: CallGrant, body: &[u8]) {
        let tool = inner.tools.find(&grant.tool).filter(|tool| offer_of(tool).as_ref() == Some(&grant.offer));
        let attempt = grant.attempt;
        let token = CancellationToken::new();
        let admission = {
            let mut state = inner.state();
            let admission = state.calls.on_call(inner.now(), &gateway, (attempt, grant.ticket), tool.is_some());
            if admission == Admission::Run {
                state.tokens.insert(attempt, token.clone());
            }
            admission
        };
        match (admission, tool) {
            (Admission::Run, Some(tool)) => {
                let arguments = String::from_utf8_lossy(body).into_owned();
                let call = RunningCall { inner: Arc::clone(inner), gateway, grant, tool, token };
                tokio::spawn(call.run(arguments));
            }
            (Admission::Refuse(reason), _) => inner.tell(&gateway, ToGateway::Refused { attempt, reason }, b""),
            (Admission::Run | Admission::Ignore, _) => {}
        }
    }

    async fn cancel_all(&self) {
        self.state().tokens.values().for_each(CancellationToken::cancel);
        let until = Instant::now() + STOP_GRACE;
        while self.state().calls.running() > 0 && Instant::now() < until {
            tokio::time::sleep(BUSY_TICK).await;
        }
    }
}

/// A call that runs.
struct RunningCall {
    inner: Arc<Inner>,
    gateway: Arc<str>,
    grant: CallGrant,
    tool: Arc<Tool>,
    token: CancellationToken,
}

impl RunningCall {
    async fn run(self, arguments: String) {
        let id = self.grant.call.clone();
        let ended = AssertUnwindSafe(self.call(arguments)).catch_unwind().await;
        let result = ended.unwrap_or_else(|_| {
            failure(&id, &self.tool, CallError::new(ErrorKind::Host, "the worker failed while the tool ran"))
        });
        let mut body = serde_json::to_vec(&result).unwrap_or_default();
        if body.len() > self.inner.link.max_body_bytes() {
            let (size, maximum) = (body.len(), self.inner.link.max_body_bytes());
            let message = format!("the result is {size} bytes on the way from the worker; NATS takes {maximum}");
            let error = CallError::new(ErrorKind::OutputTooLarge, message)
                .with_hint("ask for less, or raise `max_payload` of the NATS server");
            body = serde_json::to_vec(&failure(&id, &self.tool, error)).unwrap_or_default();
        }
        let gateway = {
            let mut state = self.inner.state();
            state.tokens.remove(&self.grant.attempt);
            state.calls.on_ended(self.grant.attempt)
        };
        if let Some(gateway) = gateway {
            let message = ToGateway::Ended { attempt: self.grant.attempt, offer: self.grant.offer.clone() };
            self.inner.tell(&gateway, message, &body);
        }
    }

    async fn call(&self, arguments: String) -> CallResult {
        let grant = &self.grant;
        let refused = |error| failure(&grant.call, &self.tool, error);
        // A gateway is trusted with calls, and not with the memory of a guest: its arguments pass the gate here, too.
        let call = match validate(&self.tool, Arguments::Text(arguments)).await {
            Ok(call) => call,
            Err(error) => return refused(error),
        };
        let context = CallContext {
            id: grant.call.clone(),
            actor: grant.actor.as_deref().map(Arc::from),
            state: grant.state.as_deref().map(Arc::from),
            limits: Some(grant.limits.within(&(self.inner.limits)(&self.tool))),
            observer: Some(Arc::new(Forwarder {
                inner: Arc::clone(&self.inner),
                gateway: Arc::clone(&self.gateway),
                attempt: grant.attempt,
            })),
            cancelled: Some(self.token.clone()),
            ..CallContext::default()
        };
        match self.inner.tools.call(call, context).await {
            Ok(result) => result,
            Err(stop) => refused(CallError::new(ErrorKind::ToolFailed, stop.reason)),
        }
    }
}

async fn validate(tool: &Arc<Tool>, arguments: Arguments) -> Result<ValidatedCall, CallError> {
    if tool.validation_steps(&arguments) <= MAX_INLINE_STEPS {
        return tool.validate(arguments).map_err(InvalidCall::into);
    }
    let tool = Arc::clone(tool);
    let validated = tokio::task::spawn_blocking(move || tool.validate(arguments)).await;
    let lost = |_| CallError::new(ErrorKind::Host, "the worker stopped in the middle of a check");
    validated.map_err(lost)?.map_err(InvalidCall::into)
}

/// An observer that sends log lines and progress of a call to its gateway.
struct Forwarder {
    inner: Arc<Inner>,
    gateway: Arc<str>,
    attempt: AttemptId,
}

impl Observer for Forwarder {
    fn log(&self, level: Level, message: &str) {
        let message = ToGateway::Log { attempt: self.attempt, level, message: message.to_owned() };
        self.inner.tell(&self.gateway, message, b"");
    }

    fn progress(&self, progress: Progress) {
        let Progress { fraction, message, partial } = progress;
        let message = message.map(|text| text.to_string());
        self.inner.tell(&self.gateway, ToGateway::Progress { attempt: self.attempt, fraction, message, partial }, b"");
    }
}

fn failure(id: &str, tool: &Tool, error: CallError) -> CallResult {
    let (id, tool) = (id.to_owned(), tool.full_name().to_owned());
    CallResult { id, tool, outcome: Err(error), metadata: Metadata::default() }
}

/// Returns the component of a tool and its powers; `None` if it is not one of a component, or not approved.
pub(crate) fn offer_of(tool: &Tool) -> Option<Offer> {
    let (component, powers) = (tool.digest()?, tool.powers_digest()?);
    tool.is_approved().then_some(Offer { component, powers })
}

/// Returns what a set of tools offers, sorted.
fn offers(tools: &dyn ToolProvider) -> Vec<Offer> {
    let mut offers: Vec<Offer> = tools.tools().iter().filter_map(|tool| offer_of(tool)).collect();
    offers.sort_unstable();
    offers.dedup();
    offers
}
