//! The host's services for a worker: operations on the store of keys and values, HTTP requests, connections, and capabilities.
//!
//! Every permission is checked here. A worker only forwards the operations of its guest; the owner of the store, the
//! rules for requests and connections and the secrets in them never leave the host.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::call::content::Content;
use fumehood_core::call::event::Progress;
use fumehood_core::call::limits::Limits;
use fumehood_core::key_value::{KeyValueStore, MAX_PAGE_KEYS, MAX_VALUE_BYTES, Query, StoreError};
use fumehood_core::policy::permission::Grant;
use fumehood_core::policy::redact::Redactor;
use fumehood_core::text::sanitize::printable;
use fumehood_core::tool::name::Namespace;
use tokio::task::AbortHandle;
use tracing::{Instrument as _, Span};

use super::body_stream;
use super::capability_calls::CapabilityCalls;
use super::connection_stream;
use super::link::{Link, Pending};
use super::message::{Parts, RequestHead, SocketStep, StoreAnswer, StoreStep, ToWorker};
use super::values::Values;
use crate::call::outcome::Execution;
use crate::call::shared::Shared;
use crate::engine::deadline::Deadline;
use crate::engine::guest_runtime::GuestRuntime;
use crate::socket::Socket;
use crate::wasi::http::DirectEgress;
use crate::wasi::sockets::{DirectSockets, Sockets};
use crate::wasi::{
    DirectOutbound, GrantedCapabilities, Invocation, MAX_STORE_WAIT, Refusals, RequestLedger, no_folder_refusal,
};

/// Maximum number of concurrent store operations of one worker.
const MAX_STORE_OPERATIONS: usize = 128;
/// Maximum number of concurrent requests, lookups and connections of one call. The grant allows fewer; this bounds a worker that
/// ignores it.
const MAX_REQUESTS: usize = 1024;

/// Maximum time after a call in which its connections send what the guest wrote.
const MAX_DRAIN_TIME: Duration = Duration::from_secs(1);

/// The host's services for the worker of one component.
pub(super) struct Services {
    shared: Arc<Shared>,
    grant: Arc<Grant>,
    owner: Option<Namespace>,
    redactor: Option<Arc<Redactor>>,
    capabilities: GrantedCapabilities,
    steps: Arc<AtomicUsize>,
}

/// The requests and connections of one call.
pub(super) struct CallRequests {
    /// Taken when the call is over.
    egress: Mutex<Option<DirectEgress>>,
    sockets: Arc<DirectSockets>,
    tasks: Mutex<Vec<AbortHandle>>,
    /// Tasks of lookups and connections.
    connections: Mutex<Vec<AbortHandle>>,
    ledger: RequestLedger,
    refusals: Refusals,
}

/// An operation of a worker on the store.
pub(super) struct UsedStore {
    pub(super) step: u64,
    pub(super) patience: Duration,
    pub(super) what: StoreStep,
}

/// A function that a worker uses, as it names it.
pub(super) struct UsedFunction {
    pub(super) step: u64,
    pub(super) capability: String,
    pub(super) interface: String,
    pub(super) function: String,
    pub(super) arguments: Values,
}

/// A guard that counts a store operation until it is dropped.
struct StepGuard(Arc<AtomicUsize>);

impl Drop for StepGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Services {
    pub(super) fn new(
        shared: &Arc<Shared>,
        grant: Arc<Grant>,
        owner: Option<Namespace>,
        redactor: Option<Arc<Redactor>>,
        capabilities: GrantedCapabilities,
    ) -> Self {
        Self { shared: Arc::clone(shared), grant, owner, redactor, capabilities, steps: Arc::default() }
    }

    /// Returns the name of the component; empty if it has none.
    pub(super) fn component(&self) -> &str {
        self.owner.as_ref().map_or("", Namespace::as_str)
    }

    pub(super) fn runtime(&self) -> &GuestRuntime {
        &self.shared.runtime
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Returns the capabilities of one call; `None` if the component has none.
    pub(super) fn capability_calls(
        &self,
        invocation: &Invocation,
        limits: &Limits,
        deadline: Instant,
    ) -> Option<Arc<CapabilityCalls>> {
        if self.capabilities.is_empty() {
            return None;
        }
        let granted = self.capabilities.clone();
        Some(Arc::new(CapabilityCalls::new(granted, invocation, self.owner.clone(), limits, deadline)))
    }

    /// Starts a function of a capability. Its answer is sent over the link.
    ///
    /// # Errors
    /// If the component has no such function, or the message is malformed, which only a worker that was taken over sends.
    pub(super) fn use_capability(
        &self,
        link: &Link,
        calls: &CapabilityCalls,
        used: UsedFunction,
    ) -> Result<(), String> {
        let UsedFunction { step, capability, interface, function, arguments } = used;
        let at = self.capabilities.all().find(&capability, &interface, &function);
        let at = at.ok_or_else(|| "it uses a function that no capability has".to_owned())?;
        let arguments = arguments.into_list().ok_or_else(|| "it sends malformed values".to_owned())?;
        calls.call(link, step, at, arguments)
    }

    /// Drops a handle of a capability.
    ///
    /// # Errors
    /// See [`Self::use_capability`].
    pub(super) fn drop_handle(
        &self,
        calls: &CapabilityCalls,
        capability: &str,
        resource: &str,
        handle: u32,
    ) -> Result<(), String> {
        let at = self.capabilities.all().find_resource(capability, resource);
        let at = at.ok_or_else(|| "it drops a handle that no capability has".to_owned())?;
        calls.drop_resource(at, resource, handle)
    }

    /// Redacts a log line and makes it printable, whatever the worker sent.
    pub(super) fn log_line(&self, message: &str) -> String {
        let message = self.redactor.as_ref().map_or(message.into(), |redactor| redactor.redact(message));
        printable(&message).into_owned()
    }

    /// Redacts a progress update. Malformed parts are dropped.
    pub(super) fn progress(&self, fraction: Option<f64>, message: Option<String>, partial: Parts) -> Progress {
        let part = |part| {
            let mut part = Content::try_from(part).ok()?;
            if let Some(redactor) = &self.redactor {
                redactor.redact_content(&mut part);
            }
            Some(part)
        };
        Progress {
            fraction: fraction.filter(|fraction| !fraction.is_nan()).map(|fraction| fraction.clamp(0.0, 1.0)),
            message: message.map(|message| self.log_line(&message).into()),
            partial: partial.into_iter().filter_map(part).collect(),
        }
    }

    /// Starts a store operation in the span of its call. Its answer is sent over the link.
    ///
    /// # Errors
    /// If the worker has more concurrent operations than its guests can have.
    pub(super) fn store(&self, link: &Link, span: Span, used: UsedStore) -> Result<(), String> {
        let UsedStore { step, patience, what } = used;
        let guard = StepGuard(Arc::clone(&self.steps));
        if self.steps.fetch_add(1, Ordering::Relaxed) >= MAX_STORE_OPERATIONS {
            return Err("it has more store operations in flight than its calls can have".to_owned());
        }
        let owner = self.owner.clone();
        let quota = self.grant.key_value();
        let backend = Arc::clone(&self.shared.key_value);
        let link = link.weak();
        let storing = async move {
            let patience = patience.min(MAX_STORE_WAIT);
            let answer = match (owner, quota) {
                (Some(owner), Some(quota)) => {
                    let max_bytes = quota.bytes();
                    backend
                        .step(
                            what.function(),
                            move || patience,
                            move |store, patience| run_step(store, &owner, max_bytes, what, patience),
                        )
                        .await
                }
                _ => Err(StoreError::Unavailable("no store was granted".to_owned())),
            };
            drop(guard);
            if let Some(link) = link.upgrade() {
                link.notify(&ToWorker::Stored { step, answer });
            }
        };
        self.shared.runtime.spawn(storing.instrument(span));
        Ok(())
    }

    /// Returns the requests and connections of a call.
    fn requests_of<'p>(&self, pending: &'p mut Pending) -> &'p Arc<CallRequests> {
        let Pending { requests, observer, deadline, .. } = pending;
        requests.get_or_insert_with(|| {
            let refusals = Refusals::default();
            let now = Instant::now();
            let deadline = Deadline::after(now, deadline.saturating_duration_since(now));
            let network = &self.shared.network;
            let redactor = self.redactor.clone();
            let DirectOutbound { egress, sockets, ledger } =
                DirectOutbound::new(&self.grant, network, deadline, &refusals, observer.clone(), redactor);
            Arc::new(CallRequests {
                egress: Mutex::new(Some(egress)),
                sockets,
                tasks: Mutex::default(),
                connections: Mutex::default(),
                ledger,
                refusals,
            })
        })
    }

    /// Checks a request, makes it, and transfers it and its response over `stream`.
    pub(super) fn request(&self, pending: &mut Pending, head: RequestHead, stream: Socket) {
        let serving = Arc::clone(self.requests_of(pending));
        let requests = Arc::clone(&serving);
        let requesting = async move {
            // On any error the stream is dropped, which the guest sees as a terminated connection.
            let _ended = body_stream::serve(stream, head, |request, options| {
                let mut egress = serving.egress.lock().unwrap_or_else(PoisonError::into_inner);
                egress.as_mut().map(|egress| egress.send(request, Some(options)))
            })
            .await;
        };
        self.run_task(&requests.tasks, &pending.span, requesting);
    }

    /// Checks a lookup or a connection, makes it, and transfers its answer and its bytes over `stream`.
    pub(super) fn socket(&self, pending: &mut Pending, wanted: SocketStep, stream: Socket) {
        let requests = Arc::clone(self.requests_of(pending));
        let sockets: Arc<dyn Sockets> = requests.sockets.clone();
        let serving = async move {
            // On any error the stream is dropped, which the guest sees as a lost connection.
            let _ended = connection_stream::serve(stream, wanted, sockets).await;
        };
        self.run_task(&requests.connections, &pending.span, serving);
    }

    /// Runs a task of a call in its span. If the call has too many, the task is dropped with its stream.
    fn run_task(&self, tasks: &Mutex<Vec<AbortHandle>>, span: &Span, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.is_finished());
        if tasks.len() < MAX_REQUESTS {
            tasks.push(self.shared.runtime.spawn(task.instrument(span.clone())).abort_handle());
        }
    }
}

impl CallRequests {
    /// Aborts all running requests and connections. Afterwards every one has been reported.
    pub(super) fn end(&self) {
        abort(&mut take(&self.tasks));
        abort(&mut take(&self.connections));
        drop(self.egress.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Aborts all running requests, lets connections send what the guest wrote, and adds the reports to the result of the call.
    pub(super) fn finish(&self, execution: &mut Execution, runtime: &GuestRuntime) {
        let mut connections = take(&self.connections);
        connections.retain(|task| !task.is_finished());
        if !connections.is_empty() {
            // The worker has closed its end of them.
            let draining = async move {
                tokio::time::sleep(MAX_DRAIN_TIME).await;
                abort(&mut connections);
            };
            runtime.spawn(draining.in_current_span());
        }
        self.end();
        let metadata = &mut execution.metadata;
        metadata.requests = self.ledger.end();
        let (refused, exhausted) = self.refusals.to_lists();
        if !refused.is_empty() {
            // The worker has not seen these, and took for the reason what the tool only looked for.
            let looked_for = no_folder_refusal();
            metadata.refused.retain(|refusal| *refusal != looked_for);
        }
        metadata.refused.extend(refused);
        metadata.exhausted.extend(exhausted);
    }
}

fn take(tasks: &Mutex<Vec<AbortHandle>>) -> Vec<AbortHandle> {
    std::mem::take(&mut tasks.lock().unwrap_or_else(PoisonError::into_inner))
}

fn abort(tasks: &mut Vec<AbortHandle>) {
    tasks.drain(..).for_each(|task| task.abort());
}

fn run_step(
    store: &dyn KeyValueStore,
    owner: &Namespace,
    max_bytes: u64,
    step: StoreStep,
    patience: Duration,
) -> Result<StoreAnswer, StoreError> {
    Ok(match step {
        StoreStep::Get(key) => StoreAnswer::Value(store.get(owner, &key, patience)?),
        StoreStep::Set(_, value) | StoreStep::CompareAndSet(_, _, value) if value.len() > MAX_VALUE_BYTES => {
            return Err(StoreError::Unavailable("the value is too large".to_owned()));
        }
        StoreStep::Set(key, value) => {
            store.set(owner, &key, &value, max_bytes, patience)?;
            StoreAnswer::Done
        }
        StoreStep::CompareAndSet(key, expected, value) => {
            let expected = expected.as_deref();
            StoreAnswer::Changed(store.compare_and_set(owner, &key, expected, &value, max_bytes, patience)?)
        }
        StoreStep::Delete(key) => StoreAnswer::Changed(store.delete(owner, &key, patience)?),
        StoreStep::List(query) => {
            let limit = query.limit.clamp(1, MAX_PAGE_KEYS);
            StoreAnswer::Page(store.list(owner, &Query { limit, ..query }, patience)?)
        }
    })
}
