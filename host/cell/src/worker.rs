//! A worker: runs the calls that gateways send, in the sandbox of this process.

mod grants;
mod options;
mod running_call;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fumehood_core::call::CancellationToken;
use fumehood_core::tool::ToolProvider;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;

use self::grants::Grants;
pub use self::options::{KeptValues, LimitsOf, WorkerOptions};
use self::running_call::RunningCall;
pub(crate) use self::running_call::{validate, worker_span};
use crate::error::CellError;
use crate::identity::{
    Exchange, Frame, FrameError, Party, Role, Session, SessionError, SessionTable, Side, session_id,
};
use crate::link::{Link, NodeOptions};
use crate::protocol::{
    ANNOUNCE_EVERY, Admission, Announcement, AttemptId, CallRequest, Hello, PROTOCOL_VERSION, RefusalReason, ToGateway,
    ToWorker, Welcome, WorkerCalls, WorkerEffect,
};

/// Time between two looks at what is due while calls run.
const BUSY_TICK: Duration = Duration::from_millis(10);
/// Time between two looks at what is due while none runs.
const IDLE_TICK: Duration = Duration::from_millis(25);
/// Minimum time between an announcement and one that only says that there is a place again.
const ANNOUNCE_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Maximum number of messages that are taken before anything else is looked at.
const MAX_BATCH: usize = 64;
/// Time for which a worker that takes no more calls still says so, to gateways that have not heard it.
const DRAIN_LINGER: Duration = Duration::from_millis(300);
/// Time that cancelled guests have to stop when the worker ends.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A worker of a cell.
#[derive(Clone)]
pub struct Worker {
    inner: Arc<Inner>,
}

struct Inner {
    link: Link,
    tools: Arc<dyn ToolProvider>,
    options: WorkerOptions,
    run: u64,
    /// Cancelled once a gateway has told this worker to end.
    drain: CancellationToken,
    began: Instant,
    sessions: Mutex<SessionTable>,
    state: Mutex<State>,
}

struct State {
    calls: WorkerCalls,
    grants: Grants,
    /// The number of the last announcement.
    announced: u64,
    /// True once this worker ends, whatever still runs.
    is_ending: bool,
    tokens: HashMap<AttemptId, CancellationToken>,
}

/// Reasons to ignore a message of a gateway.
#[derive(Debug, thiserror::Error)]
enum IgnoredError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(
        "a key exchange with `{gateway}` for another run or cell, or with protocol version {version}; this worker has \
         version {PROTOCOL_VERSION}, and versions may differ by one"
    )]
    Hello { gateway: String, version: u16 },
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("name", &self.inner.link.name()).finish_non_exhaustive()
    }
}

impl Worker {
    /// Joins a cell with these tools. Calls arrive once it [serves](Self::serve).
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn join(
        node: NodeOptions,
        tools: Arc<dyn ToolProvider>,
        options: WorkerOptions,
    ) -> Result<Self, CellError> {
        let run = getrandom::u64().map_err(CellError::Random)?;
        let link = Link::connect(node).await?;
        let state = Mutex::new(State {
            calls: WorkerCalls::new(run, options.places),
            grants: Grants::default(),
            announced: 0,
            is_ending: false,
            tokens: HashMap::new(),
        });
        let drain = CancellationToken::new();
        let began = Instant::now();
        let sessions = Mutex::default();
        Ok(Self { inner: Arc::new(Inner { link, tools, options, run, drain, began, sessions, state }) })
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
        let mut draining = None::<Instant>;
        let mut announced = None::<Instant>;
        let mut was_full = false;
        let mut next_tick = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        loop {
            tokio::select! {
                biased;
                () = &mut next_tick => {
                    inner.tick();
                    let is_idle = inner.state().calls.running() == 0;
                    let drained = draining.map(|since| since.elapsed());
                    if drained.is_some_and(|time| (is_idle && time >= DRAIN_LINGER) || time >= grace.max(DRAIN_LINGER)) {
                        break;
                    }
                    next_tick.as_mut().reset(Instant::now() + if is_idle { IDLE_TICK } else { BUSY_TICK });
                }
                _ = &mut stop, if draining.is_none() => {
                    inner.state().calls.drain();
                    announced = None;
                    draining = Some(Instant::now());
                }
                message = messages.next() => {
                    let Some(message) = message else { return Err(CellError::Closed) };
                    Inner::receive(inner, &message.payload);
                    // Those that wait are taken at once: being polled costs more than a message does.
                    for _ in 0..MAX_BATCH {
                        let Some(Some(message)) = messages.next().now_or_never() else { break };
                        Inner::receive(inner, &message.payload);
                    }
                }
            }
            let is_full = inner.state().calls.running() >= inner.options.places;
            let has_place_again = was_full && !is_full;
            let age = announced.map_or(Duration::MAX, |at| at.elapsed());
            if age >= ANNOUNCE_EVERY || (has_place_again && age >= ANNOUNCE_AGAIN_AFTER) {
                inner.announce();
                announced = Some(Instant::now());
                was_full = is_full;
            }
            was_full |= is_full;
        }
        self.inner.cancel_all().await;
        inner.link.flush().await;
        Ok(())
    }

    pub(crate) fn link(&self) -> &Link {
        &self.inner.link
    }

    /// Returns the tools, and the options of their calls.
    pub(crate) fn tools(&self) -> (Arc<dyn ToolProvider>, WorkerOptions) {
        (Arc::clone(&self.inner.tools), self.inner.options.clone())
    }

    /// Waits until a gateway tells this worker to end. It is for the caller to stop [`Self::serve`] then.
    pub async fn told_to_drain(&self) {
        self.inner.drain.cancelled().await;
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

    fn sessions(&self) -> MutexGuard<'_, SessionTable> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn announce(&self) {
        let offers = self.options.offers(&*self.tools);
        let announcement = {
            let State { calls, announced, .. } = &mut *self.state();
            *announced = announced.saturating_add(1);
            Announcement {
                version: PROTOCOL_VERSION,
                sequence: *announced,
                ticket: calls.ticket(),
                places: saturate(self.options.places),
                running: saturate(calls.running()),
                draining: calls.is_draining(),
                offers,
            }
        };
        self.link.send(Role::Announcer, "workers", "", announcement, b"");
    }

    fn tick(&self) {
        let effects = self.state().calls.on_tick(self.now());
        for effect in effects {
            match effect {
                WorkerEffect::Send { gateway, message } => {
                    let session = self.sessions().latest_of(&gateway).cloned();
                    if let Some(session) = session {
                        self.tell(&session, &message, b"");
                    }
                }
                WorkerEffect::Cancel(attempt) => self.cancel(attempt),
            }
        }
    }

    fn tell(&self, session: &Session, message: &ToGateway, body: &[u8]) {
        self.link.send_in(session, &format!("gateway.{}", session.peer()), message, body);
    }

    fn cancel(&self, attempt: AttemptId) {
        if let Some(token) = self.state().tokens.get(&attempt) {
            token.cancel();
        }
    }

    /// Acts upon a message of a gateway: one of a session, or the first one of an exchange of keys.
    fn receive(inner: &Arc<Self>, bytes: &[u8]) {
        let ignored = if session_id(bytes).is_some() {
            Self::receive_in_session(inner, bytes)
        } else {
            inner.receive_hello(bytes)
        };
        if let Err(error) = ignored {
            tracing::warn!(target: "fumehood::cell", "ignored {error}");
        }
    }

    fn receive_in_session(inner: &Arc<Self>, bytes: &[u8]) -> Result<(), IgnoredError> {
        let session = inner.sessions().of_frame(bytes)?;
        let (message, body) = session.open::<ToWorker>(bytes)?;
        if !session.is_confirmed() {
            inner.sessions().confirm(&session);
        }
        match message {
            ToWorker::Call(request) => Self::begin(inner, session, *request, body),
            ToWorker::Cancel { attempt } => {
                let is_running = inner.state().calls.on_cancel(inner.now(), session.peer_id(), attempt);
                if is_running {
                    inner.cancel(attempt);
                }
            }
            ToWorker::Alive => inner.state().calls.on_alive(inner.now(), session.peer_id()),
            ToWorker::Drain => {
                tracing::info!(target: "fumehood::cell", gateway = &**session.peer(), "told to take no more calls");
                inner.drain.cancel();
            }
            ToWorker::Unknown => {}
        }
        Ok(())
    }

    /// Completes the exchange of keys that a gateway has begun, and answers it.
    fn receive_hello(&self, bytes: &[u8]) -> Result<(), IgnoredError> {
        let Frame { envelope, .. } = self.link.open::<Hello>(bytes, Role::Gateway)?;
        let gateway = envelope.from;
        let hello = envelope.message;
        let is_compatible = hello.version.abs_diff(PROTOCOL_VERSION) <= 1;
        if hello.worker_run != self.run || hello.cell != self.link.cell() || !is_compatible {
            return Err(IgnoredError::Hello { gateway, version: hello.version });
        }
        let key = self.link.key_of(&gateway).ok_or_else(|| FrameError::Unknown(gateway.clone()))?;
        if !self.sessions().begin(hello.key) {
            return Ok(());
        }
        let own = Exchange::generate()?;
        let welcome = Welcome {
            version: PROTOCOL_VERSION,
            cell: hello.cell,
            gateway_run: hello.gateway_run,
            worker_run: self.run,
            answers: hello.key,
            key: own.public(),
        };
        let name = self.link.name().to_owned();
        let worker = Party { name, key: self.link.key().public(), run: self.run, exchange: own.public() };
        let peer = Party { name: gateway.clone(), key, run: hello.gateway_run, exchange: hello.key };
        let session = Session::derive(own, Side::Worker, self.link.cell(), &peer, &worker)?;
        self.sessions().insert(Arc::new(session));
        self.link.send(Role::Worker, &format!("gateway.{gateway}"), &gateway, welcome, b"");
        Ok(())
    }

    /// Runs a call, or says why not.
    fn begin(inner: &Arc<Self>, session: Arc<Session>, request: CallRequest, body: &[u8]) {
        let attempt = request.attempt;
        let refuse = |reason| inner.tell(&session, &ToGateway::Refused { attempt, reason }, b"");
        let grant = inner.state().grants.of_call(&inner.link, &session, &request);
        let Some(grant) = grant else { return refuse(RefusalReason::UnknownGrant) };
        let tool = inner.tools.find(&grant.tool).filter(|tool| {
            let offer = inner.options.kept_values.offer_of(tool);
            offer.as_ref() == Some(&grant.offer)
        });
        let token = CancellationToken::new();
        let admission = {
            let mut state = inner.state();
            let now = inner.now();
            let admission = state.calls.on_call(now, session.peer_id(), attempt, request.ticket, tool.is_some());
            if admission == Admission::Run {
                state.tokens.insert(attempt, token.clone());
            }
            admission
        };
        match (admission, tool) {
            (Admission::Run, Some(tool)) => {
                let arguments = String::from_utf8_lossy(body).into_owned();
                let call = RunningCall { inner: Arc::clone(inner), session, request, grant, tool, token };
                tokio::spawn(call.run(arguments));
            }
            (Admission::Refuse(reason), _) => refuse(reason),
            (Admission::Run | Admission::Ignore, _) => {}
        }
    }

    async fn cancel_all(&self) {
        {
            let mut state = self.state();
            state.is_ending = true;
            state.tokens.values().for_each(CancellationToken::cancel);
        }
        let until = Instant::now() + STOP_GRACE;
        while self.state().calls.running() > 0 && Instant::now() < until {
            tokio::time::sleep(BUSY_TICK).await;
        }
    }
}

fn saturate(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
