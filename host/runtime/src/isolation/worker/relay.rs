//! Relays from a guest to the host: store operations, requests, connections, log lines and progress.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::event::{Level, Progress};
use fumehood_core::call::{Observer, Usage};
use fumehood_core::key_value::{Key, KeyValueStore, Page, Query, StoreError};
use fumehood_core::tool::name::Namespace;
use http::Request;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::channel::Channel;
use crate::isolation::message::{FromWorker, Parts, SocketStep, StoreAnswer, StoreStep};
use crate::isolation::{body_stream, connection_stream};
use crate::socket::Socket;
use crate::wasi::OutboundConfig;
use crate::wasi::http::{RelayEgress, RequestRelay, ResponseFuture};
use crate::wasi::sockets::{Connection, SocketError, Sockets};

/// Extra time for the host's answer to arrive. The host ends an operation within its patience.
const ANSWER_GRACE: Duration = Duration::from_secs(1);
/// Minimum time between two reports of what a call has cost so far.
const USAGE_INTERVAL: Duration = Duration::from_millis(200);

/// The operations on the host's store of keys and values.
pub(super) struct StoreRelay {
    channel: Channel,
    number: AtomicU64,
    waiting: Mutex<HashMap<u64, SyncSender<Result<StoreAnswer, StoreError>>>>,
}

/// The host's store of keys and values, for one call.
struct RelayStore {
    relay: Arc<StoreRelay>,
    call: u64,
}

impl std::fmt::Debug for RelayStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayStore").finish_non_exhaustive()
    }
}

impl StoreRelay {
    pub(super) fn new(channel: Channel) -> Arc<Self> {
        Arc::new(Self { channel, number: AtomicU64::new(0), waiting: Mutex::default() })
    }

    /// Returns the store for one call.
    pub(super) fn of_call(self: &Arc<Self>, call: u64) -> Arc<dyn KeyValueStore> {
        Arc::new(RelayStore { relay: Arc::clone(self), call })
    }

    /// Delivers the host's answer to a store operation.
    pub(super) fn deliver_answer(&self, step: u64, answer: Result<StoreAnswer, StoreError>) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&step);
        if let Some(waiting) = waiting {
            let _nobody_waits = waiting.try_send(answer);
        }
    }
}

impl RelayStore {
    fn ask(&self, what: StoreStep, patience: Duration) -> Result<StoreAnswer, StoreError> {
        let StoreRelay { channel, number, waiting } = &*self.relay;
        let step = number.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = sync_channel(1);
        waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(step, sender);
        channel.send(&FromWorker::Store { call: self.call, step, patience, what }, &[]);
        let answer = answer.recv_timeout(patience.saturating_add(ANSWER_GRACE));
        waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&step);
        let late = |_| Err(StoreError::Unavailable("the host did not answer in time".to_owned()));
        answer.unwrap_or_else(late)
    }

    fn ask_for_change(&self, what: StoreStep, patience: Duration) -> Result<bool, StoreError> {
        match self.ask(what, patience)? {
            StoreAnswer::Changed(has_changed) => Ok(has_changed),
            _ => Err(unexpected_answer()),
        }
    }
}

fn unexpected_answer() -> StoreError {
    StoreError::Unavailable("the host sent an unexpected answer".to_owned())
}

/// The owner and the quota are ignored here, because the host supplies them.
impl KeyValueStore for RelayStore {
    fn get(&self, _owner: &Namespace, key: &Key, patience: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        match self.ask(StoreStep::Get(key.clone()), patience)? {
            StoreAnswer::Value(value) => Ok(value),
            _ => Err(unexpected_answer()),
        }
    }

    fn set(&self, _: &Namespace, key: &Key, value: &[u8], _most: u64, patience: Duration) -> Result<(), StoreError> {
        match self.ask(StoreStep::Set(key.clone(), value.to_vec()), patience)? {
            StoreAnswer::Done => Ok(()),
            _ => Err(unexpected_answer()),
        }
    }

    fn compare_and_set(
        &self,
        _owner: &Namespace,
        key: &Key,
        expected: Option<&[u8]>,
        value: &[u8],
        _quota: u64,
        patience: Duration,
    ) -> Result<bool, StoreError> {
        let step = StoreStep::CompareAndSet(key.clone(), expected.map(<[u8]>::to_vec), value.to_vec());
        self.ask_for_change(step, patience)
    }

    fn delete(&self, _owner: &Namespace, key: &Key, patience: Duration) -> Result<bool, StoreError> {
        self.ask_for_change(StoreStep::Delete(key.clone()), patience)
    }

    fn list(&self, _owner: &Namespace, query: &Query, patience: Duration) -> Result<Page, StoreError> {
        match self.ask(StoreStep::List(query.clone()), patience)? {
            StoreAnswer::Page(page) => Ok(page),
            _ => Err(unexpected_answer()),
        }
    }
}

/// HTTP requests and connections, which the host checks and makes.
#[derive(Clone)]
pub(super) struct Requests(Channel);

struct CallRequests {
    channel: Channel,
    /// `None` while the component describes itself.
    call: Option<u64>,
}

impl Requests {
    pub(super) fn new(channel: Channel) -> Self {
        Self(channel)
    }

    pub(super) fn outbound(&self, call: Option<u64>, may_request: bool) -> OutboundConfig {
        let relay = Arc::new(CallRequests { channel: self.0.clone(), call });
        let sockets = Arc::clone(&relay);
        OutboundConfig::Relay { egress: RelayEgress { relay, may_request }, sockets }
    }
}

impl CallRequests {
    /// Sends a lookup or a connection to the host, and returns the stream of its answer.
    fn start(&self, wanted: SocketStep) -> Result<Socket, SocketError> {
        let call = self.call.ok_or(SocketError::Denied)?;
        let (ours, theirs) = Socket::pair().map_err(|_| SocketError::Exhausted)?;
        self.channel.send(&FromWorker::Socket { call, wanted }, &[&theirs.into_file()]);
        Ok(ours)
    }
}

impl Sockets for CallRequests {
    fn look_up(self: Arc<Self>, name: String) -> BoxFuture<'static, Result<Vec<IpAddr>, SocketError>> {
        Box::pin(async move { connection_stream::look_up(self.start(SocketStep::LookUp(name))?).await })
    }

    fn connect(self: Arc<Self>, remote: SocketAddr) -> BoxFuture<'static, Result<Connection, SocketError>> {
        Box::pin(async move { connection_stream::connect(self.start(SocketStep::Connect(remote))?).await })
    }
}

impl RequestRelay for CallRequests {
    fn send(&self, request: Request<WasiBody>, options: Option<RequestOptions>) -> ResponseFuture {
        let Some(call) = self.call else { return Box::new(async { Err(Error::HttpRequestDenied) }) };
        let head = match body_stream::request_head(&request, options.as_ref()) {
            Ok(head) => head,
            Err(too_large) => return Box::new(async { Err(too_large) }),
        };
        match Socket::pair() {
            Ok((ours, theirs)) => {
                self.channel.send(&FromWorker::Request { call, head }, &[&theirs.into_file()]);
                Box::new(body_stream::exchange(ours, request.into_body()))
            }
            Err(_) => Box::new(async { Err(Error::ConnectionLimitReached) }),
        }
    }
}

/// An observer that sends log lines, progress and cost to the host.
pub(super) struct RelayObserver {
    channel: Channel,
    call: u64,
    /// The time of the last report of the cost, or of the beginning.
    reported: Mutex<Instant>,
}

impl RelayObserver {
    pub(super) fn new(channel: Channel, call: u64) -> Self {
        Self { channel, call, reported: Mutex::new(Instant::now()) }
    }
}

impl Observer for RelayObserver {
    fn log(&self, level: Level, message: &str) {
        self.channel.send(&FromWorker::Log { call: self.call, level, message: message.to_owned() }, &[]);
    }

    fn progress(&self, progress: Progress) {
        let Progress { fraction, message, partial } = progress;
        let partial = Parts::truncate_from(partial.into_iter().map(Into::into));
        let message = message.map(|message| message.as_str().to_owned());
        self.channel.send(&FromWorker::Progress { call: self.call, fraction, message, partial }, &[]);
    }

    fn usage(&self, usage: Usage) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.elapsed() >= USAGE_INTERVAL {
            *reported = Instant::now();
            self.channel.send(&FromWorker::Used { call: self.call, usage }, &[]);
        }
    }
}
