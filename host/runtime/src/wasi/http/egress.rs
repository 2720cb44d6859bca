//! The HTTP client of a guest, through which all of its requests leave.

use std::sync::Arc;

use fumehood_core::policy::permission::http::{HttpLimits, decide};
use fumehood_core::policy::permission::{Grant, Refusal};
use fumehood_core::telemetry;
use http::Request;
use tokio::sync::Semaphore;
use tracing::Instrument as _;
use wasmtime_wasi_http::{Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks};

use super::exchange::{Exchange, TransmissionFuture};
use super::head;
use super::permit::PendingPermits;
use crate::engine::deadline::Deadline;
use crate::network::Network;
use crate::wasi::account::{Account, AllowanceExceeded, Budget, ReportOnDrop, RequestObserver};
use crate::wasi::refusals::Refusals;

/// Maximum size of the headers of one request.
const MAX_FIELDS_BYTES: usize = 16 << 10;
/// Maximum size of the headers for a tool that can make no request. What it builds takes up memory outside its ceiling.
const MAX_UNGRANTED_FIELDS_BYTES: usize = 2 << 10;
/// Maximum size of one chunk of a request's body; the host holds two of them.
const MAX_CHUNK_BYTES: usize = 64 << 10;
/// Chunks of one body that the host holds: two in its queue, and one that is being sent.
const CHUNKS_PER_BODY: usize = 3;
/// Maximum size of one chunk for a tool that can make no request.
const MAX_UNGRANTED_CHUNK_BYTES: usize = 4 << 10;

/// Maximum size of the buffers of one exchange: hyper's for reading and writing, those of TLS, and a response's head.
const EXCHANGE_BYTES: usize = 256 << 10;

/// Maximum sizes of the buffers behind the handles of requests and responses, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestBuffers {
    /// Those of a body that the guest writes.
    pub(crate) body: usize,
    /// Those of a request that was sent, until its response was read.
    pub(crate) exchange: usize,
}

/// The HTTP client of one call's guest.
pub(crate) enum Egress {
    Direct(DirectEgress),
    Relay(RelayEgress),
}

impl Egress {
    /// Returns whether any request was granted.
    pub(crate) fn may_request(&self) -> bool {
        match self {
            Self::Direct(egress) => egress.grant.http().is_some(),
            Self::Relay(relay) => relay.may_request,
        }
    }

    /// Returns the maximum sizes of the buffers of its requests. A request that is refused is never sent.
    pub(crate) fn buffers(&self) -> RequestBuffers {
        let body = self.chunk_bytes().saturating_mul(CHUNKS_PER_BODY);
        RequestBuffers { body, exchange: if self.may_request() { EXCHANGE_BYTES } else { 0 } }
    }

    fn chunk_bytes(&self) -> usize {
        if self.may_request() { MAX_CHUNK_BYTES } else { MAX_UNGRANTED_CHUNK_BYTES }
    }
}

/// The future of a response and of the transmission of its body.
pub(crate) type ResponseFuture =
    Box<dyn Future<Output = Result<(http::Response<WasiBody>, TransmissionFuture), Error>> + Send>;

/// Sends requests of one call to the process that admits or refuses them.
pub(crate) trait RequestRelay: Send + Sync {
    fn send(&self, request: Request<WasiBody>, options: Option<RequestOptions>) -> ResponseFuture;
}

/// An HTTP client that passes every request to a relay.
#[derive(Clone)]
pub(crate) struct RelayEgress {
    pub(crate) relay: Arc<dyn RequestRelay>,
    pub(crate) may_request: bool,
}

/// An HTTP client that decides on each request of one call and sends those that are allowed. Without a grant nothing is
/// looked up and nothing is connected. Dropping it reports every request of the call.
pub(crate) struct DirectEgress {
    grant: Arc<Grant>,
    network: Network,
    deadline: Deadline,
    refusals: Refusals,
    observer: RequestObserver,
    budget: Budget,
    permits: Arc<Semaphore>,
}

pub(crate) fn context(may_request: bool) -> WasiHttpCtx {
    let mut ctx = WasiHttpCtx::new();
    ctx.set_field_size_limit(if may_request { MAX_FIELDS_BYTES } else { MAX_UNGRANTED_FIELDS_BYTES });
    ctx
}

impl DirectEgress {
    pub(crate) fn new(
        grant: &Arc<Grant>,
        network: &Network,
        deadline: Deadline,
        refusals: &Refusals,
        observer: RequestObserver,
    ) -> Self {
        let limits = grant.http().map_or_else(HttpLimits::default, |http| *http.limits());
        Self {
            grant: Arc::clone(grant),
            network: network.clone(),
            deadline,
            refusals: refusals.clone(),
            observer,
            budget: Budget::new(limits, refusals),
            permits: Arc::new(Semaphore::new(usize::try_from(limits.in_flight).unwrap_or(Semaphore::MAX_PERMITS))),
        }
    }

    /// Sends a request if it is allowed.
    pub(crate) fn send(&mut self, request: Request<WasiBody>, options: Option<RequestOptions>) -> ResponseFuture {
        match self.admit(&request, options) {
            Ok(exchange) => {
                let span = telemetry::request_span(
                    &self.observer.redact(request.method().as_str()),
                    &self.observer.redact(&exchange.permit.authority()),
                );
                let permits = PendingPermits::enqueue(&self.permits, &self.network.permits);
                Box::new(exchange.run(permits, request).instrument(span))
            }
            Err(error) => Box::new(async { Err(error) }),
        }
    }

    /// Decides on a request, and returns its exchange, or the error that its guest gets at once.
    fn admit(&mut self, request: &Request<WasiBody>, options: Option<RequestOptions>) -> Result<Exchange, Error> {
        let method = request.method().as_str();
        let permit = decide(self.grant.http(), method, &request.uri().to_string()).map_err(|refusal| {
            self.refuse(method, request.uri().host().unwrap_or_default(), refusal);
            Error::HttpRequestDenied
        })?;
        let method = method.to_owned();
        let host = permit.authority();
        let account = Account::open(&self.budget, &self.observer, method, host)
            .map_err(|AllowanceExceeded| Error::ConnectionLimitReached)?;
        if !self.observer.ledger.accounts.add(account.clone()) {
            return Err(Error::ConnectionTerminated);
        }
        Ok(Exchange {
            grant: Arc::clone(&self.grant),
            permit,
            network: self.network.clone(),
            deadline: self.deadline,
            options: options.unwrap_or_default(),
            refusals: self.refusals.clone(),
            report: ReportOnDrop(account),
        })
    }

    fn refuse(&self, method: &str, host: &str, refusal: Refusal) {
        let method = crate::wasi::guest_output::cut_to(method, 32);
        let host = crate::wasi::guest_output::cut_to(host, 255);
        Account::new(&self.budget, &self.observer, method, host).record_refusal(&refusal.because);
        self.refusals.add(refusal);
    }
}

impl Drop for DirectEgress {
    fn drop(&mut self) {
        // Requests that still run are dropped with the call, but perhaps a moment later, on another thread.
        self.observer.ledger.accounts.close();
    }
}

impl WasiHttpHooks for Egress {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        head::forbidden_header_filter()
    }

    /// Returns `false`: the host sets the `host` header itself, from the URL that was checked.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _transmitted: TransmissionFuture,
    ) -> ResponseFuture {
        match self {
            Self::Direct(egress) => egress.send(request, options),
            Self::Relay(egress) => egress.relay.send(request, options),
        }
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        self.chunk_bytes()
    }

    fn p3_outgoing_body_chunk_size(&mut self) -> usize {
        self.chunk_bytes()
    }
}
