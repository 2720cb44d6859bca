//! The port for the protocols that a listener serves, and the requests that it hands to them.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use http::Response;
use http::request::Parts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::bytes::Bytes;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::body::ResponseBody;
use crate::connections::{Connection, Phase};
use crate::limits::{MemoryPermit, MemoryReservation, RequestLimits};
use crate::rejection::Rejection;
use fumehood_layers::Tenant;

/// Deadline for the body of a request, and for the wait for memory to hold it.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A protocol over HTTP, behind the listener's admission.
pub trait HttpService: Send + Sync {
    /// Returns whether requests for this path are for it.
    fn has_path(&self, path: &str) -> bool;

    /// Checks the head of a request, before its body is read.
    ///
    /// # Errors
    /// If it can be rejected already.
    fn check(&self, head: &Parts) -> Result<(), Rejection>;

    /// Answers a request that was admitted. Dropping the future ends what it does.
    ///
    /// # Errors
    /// If a limit of the tenant is reached, or the body is rejected.
    fn handle<'a>(&'a self, request: AdmittedRequest<'a>) -> BoxFuture<'a, Result<Response<ResponseBody>, Rejection>>;
}

/// The services of a listener: none until they are opened, so that a listener can be reached while tools are loaded.
/// Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub struct Services(Arc<OnceLock<Vec<Arc<dyn HttpService>>>>);

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Services").field(&self.0.get().map(Vec::len)).finish()
    }
}

impl Services {
    /// Sets the services. From now on the listener is ready. Does nothing the second time.
    pub fn open(&self, services: Vec<Arc<dyn HttpService>>) {
        let _opened_before = self.0.set(services);
    }

    /// Returns whether they were opened.
    pub(crate) fn is_open(&self) -> bool {
        self.0.get().is_some()
    }

    pub(crate) fn find(&self, path: &str) -> Option<&Arc<dyn HttpService>> {
        self.0.get()?.iter().find(|service| service.has_path(path))
    }
}

/// A request whose head passed the guard, with its body.
#[derive(Debug)]
pub struct AdmittedRequest<'a> {
    /// The tenant that sent it.
    pub tenant: Arc<Tenant>,
    /// The head.
    pub head: Parts,
    /// The whole body.
    pub body: Bytes,
    pub(crate) reservation: MemoryReservation,
    pub(crate) context: RequestContext<'a>,
}

/// The connection of a request, and the limits of its tenant.
#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    pub(crate) limits: &'a RequestLimits,
    pub(crate) connection: &'a Arc<Connection>,
    pub(crate) running: &'a TaskTracker,
}

impl fmt::Debug for RequestContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestContext").finish_non_exhaustive()
    }
}

/// A place among the concurrent requests of a tenant.
#[derive(Debug)]
struct Slot {
    _permit: OwnedSemaphorePermit,
    /// Counted while the server ends.
    _running: TaskTrackerToken,
}

/// A value that is held until a response was sent or dropped. Then the connection waits for the next request.
pub struct ResponseGuard {
    connection: Arc<Connection>,
    _slot: Option<Slot>,
}

impl fmt::Debug for ResponseGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseGuard").finish_non_exhaustive()
    }
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        self.connection.enter(Phase::Head);
    }
}

impl<'a> AdmittedRequest<'a> {
    /// Returns the connection and the limits of its tenant.
    #[must_use]
    pub fn context(&self) -> RequestContext<'a> {
        self.context
    }

    /// Reserves this much memory of its tenant in all, waiting for it for some seconds.
    ///
    /// # Errors
    /// If there is not that much in time.
    pub async fn reserve(&mut self, bytes: usize) -> Result<(), Rejection> {
        let reserving = self.context.limits.reserve(&mut self.reservation, bytes, self.context.connection);
        tokio::time::timeout(BODY_TIMEOUT, reserving).await.map_err(|_| Rejection::overloaded())
    }

    /// Takes the memory that was reserved so far.
    pub fn take_memory(&mut self) -> MemoryPermit {
        std::mem::take(&mut self.reservation).into_permit()
    }
}

impl RequestContext<'_> {
    /// Sets the phase of the connection.
    pub fn enter(&self, phase: Phase) {
        self.connection.enter(phase);
    }

    /// Returns the semaphore of the tenant for parsing a message.
    #[must_use]
    pub fn parse_turn(&self) -> Arc<Semaphore> {
        self.limits.parse_turn()
    }

    /// Acquires a place among the concurrent requests of the tenant, which the returned guard holds.
    ///
    /// # Errors
    /// If all of them are busy: the tenant has too many, whatever room the server has.
    pub async fn acquire_slot(&self) -> Result<ResponseGuard, Rejection> {
        // Before the wait, so that a server that ends waits for this request, too.
        let running = self.running.token();
        let why = "this client has too many concurrent requests; wait for one of them to end";
        let busy = Rejection::too_many(why, Duration::from_secs(1));
        let permit = self.limits.acquire_slot(self.connection).await.ok_or(busy)?;
        let slot = Slot { _permit: permit, _running: running };
        Ok(ResponseGuard { connection: Arc::clone(self.connection), _slot: Some(slot) })
    }

    /// Returns a guard without a place: for streams, which are open for hours, and limited as connections.
    #[must_use]
    pub fn stream_guard(&self) -> ResponseGuard {
        self.enter(Phase::Stream);
        ResponseGuard { connection: Arc::clone(self.connection), _slot: None }
    }
}
