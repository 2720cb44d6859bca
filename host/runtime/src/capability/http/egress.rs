//! The one door through which requests of a guest leave.

use std::sync::Arc;

use fumehood_core::permission::http::{HttpLimits, decide};
use fumehood_core::permission::{Grant, Refusal};
use fumehood_core::redact::Redactor;
use http::Request;
use tokio::sync::Semaphore;
use wasmtime_wasi_http::{Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks};

use super::account::{Account, Budget, Open, Reports, RequestObserver, UsedUp};
use super::exchange::{Exchange, Transmitted};
use super::head;
use super::place::Places;
use crate::capability::refusals::Refusals;
use crate::clock::Deadline;
use crate::network::Network;

/// What the headers of one request may take up in the host.
const FIELDS_BYTES: usize = 16 << 10;
/// The same for a tool that can make no request: what it builds only takes up room outside its memory ceiling.
const FIELDS_BYTES_POWERLESS: usize = 2 << 10;
/// The most that a guest hands over of a body at once; twice as much is held.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNK_BYTES_POWERLESS: usize = 4 << 10;

/// Where the requests of a component's calls go.
#[derive(Clone)]
pub(crate) enum OutboundConfig {
    /// Out of this process, once they were decided on.
    Network { network: Network, redactor: Option<Arc<Redactor>> },
    /// To the host of this worker process, which decides on them.
    Relay(RelayEgress),
}

impl OutboundConfig {
    /// Finds the component's secrets in what it says; `None` if it has none, or they are not in this process.
    pub(crate) fn redactor(&self) -> Option<Arc<Redactor>> {
        match self {
            Self::Network { redactor, .. } => redactor.clone(),
            Self::Relay(_) => None,
        }
    }
}

/// The HTTP client of one call's guest.
pub(crate) enum Egress {
    Direct(DirectEgress),
    Relay(RelayEgress),
}

impl Egress {
    /// Whether any request was granted.
    pub(crate) fn may_request(&self) -> bool {
        match self {
            Self::Direct(egress) => egress.grant.http().is_some(),
            Self::Relay(relay) => relay.may_request,
        }
    }

    /// What became of the requests. All of them are in it once this has been dropped.
    pub(crate) fn reports(&self) -> Reports {
        match self {
            Self::Direct(egress) => egress.reports(),
            // The host keeps them.
            Self::Relay(_) => Reports::default(),
        }
    }
}

/// Response, and the future that moves its body.
pub(crate) type Sending = Box<dyn Future<Output = Result<(http::Response<WasiBody>, Transmitted), Error>> + Send>;

/// Sends requests of one call to where they are decided on.
pub(crate) trait RequestRelay: Send + Sync {
    fn send(&self, request: Request<WasiBody>, options: Option<RequestOptions>) -> Sending;
}

/// Hands every request to a relay.
#[derive(Clone)]
pub(crate) struct RelayEgress {
    pub(crate) relay: Arc<dyn RequestRelay>,
    pub(crate) may_request: bool,
}

/// Decides on each request of one call, and sends what is allowed. Without a grant nothing is looked up and nothing is
/// connected. When it is dropped, every request of the call has been told of.
pub(crate) struct DirectEgress {
    grant: Arc<Grant>,
    network: Network,
    deadline: Deadline,
    refusals: Refusals,
    watcher: RequestObserver,
    budget: Budget,
    places: Arc<Semaphore>,
    accounts: Vec<Account>,
}

pub(crate) fn context(may_request: bool) -> WasiHttpCtx {
    let mut ctx = WasiHttpCtx::new();
    ctx.set_field_size_limit(if may_request { FIELDS_BYTES } else { FIELDS_BYTES_POWERLESS });
    ctx
}

impl DirectEgress {
    pub(crate) fn new(
        grant: &Arc<Grant>,
        network: &Network,
        deadline: Deadline,
        refusals: &Refusals,
        watcher: RequestObserver,
    ) -> Self {
        let limits = grant.http().map_or_else(HttpLimits::default, |http| *http.limits());
        Self {
            grant: Arc::clone(grant),
            network: network.clone(),
            deadline,
            refusals: refusals.clone(),
            watcher,
            budget: Budget::new(limits, refusals),
            places: Arc::new(Semaphore::new(usize::try_from(limits.in_flight).unwrap_or(Semaphore::MAX_PERMITS))),
            accounts: Vec::new(),
        }
    }

    /// What became of the requests. All of them are in it once this has been dropped.
    pub(crate) fn reports(&self) -> Reports {
        self.watcher.reports.clone()
    }

    /// Decides on a request, and sends it if it is allowed.
    pub(crate) fn send(&mut self, request: Request<WasiBody>, options: Option<RequestOptions>) -> Sending {
        match self.admit(&request, options) {
            Ok(exchange) => Box::new(exchange.run(Places::in_line(&self.places, &self.network.places), request)),
            Err(error) => Box::new(async { Err(error) }),
        }
    }

    /// The exchange for a request, or what its guest is told at once.
    fn admit(&mut self, request: &Request<WasiBody>, options: Option<RequestOptions>) -> Result<Exchange, Error> {
        let method = request.method().as_str();
        let permit = decide(self.grant.http(), method, &request.uri().to_string()).map_err(|refusal| {
            self.refuse(method, request.uri().host().unwrap_or_default(), refusal);
            Error::HttpRequestDenied
        })?;
        let (method, host) = (method.to_owned(), permit.authority());
        let account =
            Account::open(&self.budget, &self.watcher, method, host).map_err(|UsedUp| Error::ConnectionLimitReached)?;
        self.accounts.push(account.clone());
        Ok(Exchange {
            grant: Arc::clone(&self.grant),
            permit,
            network: self.network.clone(),
            deadline: self.deadline,
            options: options.unwrap_or_default(),
            refusals: self.refusals.clone(),
            open: Open(account),
        })
    }

    fn refuse(&self, method: &str, host: &str, refusal: Refusal) {
        let method = crate::outcome::cut_to(method, 32);
        let host = crate::outcome::cut_to(host, 255);
        Account::new(&self.budget, &self.watcher, method, host).refused(&refusal.because);
        self.refusals.add(refusal);
    }
}

impl Drop for DirectEgress {
    fn drop(&mut self) {
        // What still runs is dropped with the call, but perhaps a moment later, on another thread.
        self.accounts.iter().for_each(Account::tell);
    }
}

impl WasiHttpHooks for Egress {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        head::forbidden()
    }

    /// The host says it itself, from the address that was checked.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _transmitted: Transmitted,
    ) -> Sending {
        match self {
            Self::Direct(egress) => egress.send(request, options),
            Self::Relay(egress) => egress.relay.send(request, options),
        }
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        if self.may_request() { CHUNK_BYTES } else { CHUNK_BYTES_POWERLESS }
    }
}
