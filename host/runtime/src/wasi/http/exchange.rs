//! One request and its response: the name is looked up once, every address is checked, and the connection goes to one
//! of those.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::policy::permission::Grant;
use fumehood_core::policy::permission::http::{HttpGrant, HttpLimits, Permit, Reach, Scheme};
use fumehood_core::telemetry;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::Span;
use url::Host;
use wasmtime_wasi::runtime::AbortOnDropJoinHandle;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::body::{RequestBody, ResponseBody};
use super::exchange_error::ExchangeError;
use super::head;
use super::permit::{PendingPermits, PermitError, RequestPermits};
use crate::engine::deadline::Deadline;
use crate::network::Network;
use crate::wasi::account::{Direction, ReportOnDrop};
use crate::wasi::refusals::Refusals;

/// Maximum size of the read buffer and of the headers of a response.
const MAX_BUFFER_BYTES: usize = 64 << 10;
/// Maximum number of headers of a response.
const MAX_HEADERS: usize = 100;
/// Maximum number of addresses of one host that are tried.
const MAX_ADDRESSES: usize = 8;

/// The future that completes when the bodies of an exchange have been transmitted. Tasks that it holds transmit them,
/// whether or not it is polled; dropping it aborts them.
pub(crate) type TransmissionFuture = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// One request that was admitted, with everything that is needed to send it.
pub(super) struct Exchange {
    pub(super) grant: Arc<Grant>,
    pub(super) permit: Permit,
    pub(super) network: Network,
    pub(super) deadline: Deadline,
    pub(super) options: RequestOptions,
    pub(super) refusals: Refusals,
    pub(super) report: ReportOnDrop,
}

/// The task that drives a connection; dropping it aborts the connection.
type Driver = AbortOnDropJoinHandle<Result<(), hyper::Error>>;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Exchange {
    /// Sends the request, and returns the response as soon as its head has arrived. Dropping the future, or what it
    /// returns, ends the connection.
    pub(super) async fn run(
        self,
        permits: PendingPermits,
        request: Request<WasiBody>,
    ) -> Result<(Response<WasiBody>, TransmissionFuture), Error> {
        match self.attempt(permits, request).await {
            Ok((response, driver, permits)) => {
                telemetry::record_status(&Span::current(), response.status().as_u16());
                let limits = self.grant.http().map(HttpGrant::limits).copied().unwrap_or_default();
                let between_bytes = shorter_timeout(limits.between_bytes, self.options.between_bytes_timeout);
                let response_body = |body| ResponseBody::new(body, between_bytes, self.report, permits).boxed_unsync();
                Ok((response.map(response_body), Box::new(drive(driver))))
            }
            Err(reason) => {
                // Recorded before the report is dropped, or it would have no reason. Counting over the limit breaks the
                // connection; the limit is then the better reason, and was recorded first.
                self.report.0.record_failure(&reason.to_string());
                telemetry::record_error(&Span::current(), &reason.to_string());
                Err(reason.into_error())
            }
        }
    }

    async fn attempt(
        &self,
        permits: PendingPermits,
        request: Request<WasiBody>,
    ) -> Result<(Response<Incoming>, Driver, RequestPermits), ExchangeError> {
        let http = self.grant.http().ok_or(ExchangeError::Prohibited)?;
        let limits = *http.limits();
        let patience = || shorter_timeout(limits.connect, self.options.connect_timeout);
        let permits = permits.acquire(patience).await.map_err(|error| match error {
            PermitError::Ended => ExchangeError::Broken,
            PermitError::Busy => self.busy_error(),
        })?;
        let (stream, reach) = self.connect(http, &limits).await?;
        let request = self.prepare_request(request, reach)?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_BUFFER_BYTES)
            .max_headers(MAX_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| ExchangeError::from_hyper(&error))?;
        let driver = wasmtime_wasi::runtime::spawn(connection);
        let patience = shorter_timeout(limits.first_byte, self.options.first_byte_timeout);
        let response = match timeout(patience, sender.send_request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) if self.report.0.has_failed() => return Err(ExchangeError::TooMuchOut),
            Ok(Err(error)) => return Err(ExchangeError::from_hyper(&error)),
            Err(_late) => return Err(ExchangeError::SlowResponse),
        };
        self.report.0.record_status(response.status().as_u16());
        let received = head::headers_size(response.headers());
        if received > MAX_BUFFER_BYTES {
            // hyper applies its own limit only to heads that do not arrive in one read.
            return Err(ExchangeError::TooMuchHead);
        }
        self.report.0.count(Direction::In, received).map_err(|_| ExchangeError::TooMuchIn)?;
        Ok((response, driver, permits))
    }

    /// Records that no permit was available, and returns the error. The tool is not at fault, and can only wait.
    fn busy_error(&self) -> ExchangeError {
        let max = self.network.max_requests();
        self.refusals.add_exhausted(format!(
            "http: all calls of this host together have {max} running requests, the maximum; call again later"
        ));
        ExchangeError::Busy(max)
    }

    fn prepare_request(
        &self,
        mut request: Request<WasiBody>,
        reach: Reach,
    ) -> Result<Request<RequestBody>, ExchangeError> {
        head::prepare(&mut request, &self.permit, reach, self.grant.secrets())?;
        self.report.0.count(Direction::Out, head::head_size(&request)).map_err(|_| ExchangeError::TooMuchOut)?;
        Ok(request.map(|body| RequestBody::new(body, self.report.0.clone())))
    }

    /// Connects to the host, with TLS for `https`.
    async fn connect(&self, http: &HttpGrant, limits: &HttpLimits) -> Result<(Box<dyn Stream>, Reach), ExchangeError> {
        let patience = shorter_timeout(limits.connect, self.options.connect_timeout);
        let started = tokio::time::Instant::now();
        let addresses = timeout(patience, self.resolve()).await.map_err(|_| ExchangeError::SlowName)??;
        let reach = http.admit(&self.permit, &addresses).map_err(|refusal| {
            self.refusals.add(refusal);
            ExchangeError::Prohibited
        })?;
        let left = patience.saturating_sub(started.elapsed());
        let stream = self.connect_to_first(&addresses, left).await?;
        // A request is one write; the rest of it should not wait for an acknowledgement of the first part.
        let _ = stream.set_nodelay(true);
        match self.permit.scheme() {
            Scheme::Http => Ok((Box::new(stream), reach)),
            Scheme::Https => Ok((self.encrypt(stream, limits).await?, reach)),
        }
    }

    /// Returns all addresses of the host. The name is looked up here and nowhere else.
    async fn resolve(&self) -> Result<Vec<IpAddr>, ExchangeError> {
        let found = match self.permit.host() {
            Host::Ipv4(address) => vec![IpAddr::V4(*address)],
            Host::Ipv6(address) => vec![IpAddr::V6(*address)],
            Host::Domain(name) => self.network.resolver.resolve(name).await.map_err(ExchangeError::NoSuchName)?,
        };
        if found.is_empty() { Err(ExchangeError::NoAddress) } else { Ok(found) }
    }

    /// Connects to the first address that accepts, within `patience`. Each address but the last gets an equal share of
    /// the time that is left, of `patience` or of the call, whichever is shorter. The last one gets all that is left of
    /// `patience`.
    async fn connect_to_first(&self, addresses: &[IpAddr], patience: Duration) -> Result<TcpStream, ExchangeError> {
        let until = tokio::time::Instant::now() + patience;
        let mut failed = ExchangeError::NoAddress;
        let tried = addresses.len().min(MAX_ADDRESSES);
        for (tried_before, address) in addresses.iter().take(tried).enumerate() {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            let share = match u32::try_from(tried - tried_before) {
                Ok(others @ 2..) => left.min(self.deadline.remaining()) / others,
                _ => left,
            };
            let address = self.network.resolver.endpoint(address.to_canonical(), self.permit.port());
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failed = ExchangeError::Connect(error),
                Err(_late) => failed = ExchangeError::SlowConnect,
            }
        }
        Err(failed)
    }

    #[cfg(feature = "tls")]
    async fn encrypt(&self, stream: TcpStream, limits: &HttpLimits) -> Result<Box<dyn Stream>, ExchangeError> {
        let patience = shorter_timeout(limits.tls, self.options.connect_timeout);
        let encrypting = self.network.tls.connect(self.permit.host(), stream);
        Ok(Box::new(timeout(patience, encrypting).await.map_err(|_| ExchangeError::SlowTls)??))
    }

    /// Always fails. Grants of `https` addresses are refused when a component is loaded, so that no request gets here.
    #[cfg(not(feature = "tls"))]
    async fn encrypt(&self, _stream: TcpStream, _limits: &HttpLimits) -> Result<Box<dyn Stream>, ExchangeError> {
        Err(ExchangeError::NoTls)
    }
}

/// Returns the smaller of what the policy allows and what the guest asked for.
///
/// The deadline of the call is left out: a guest that sees the timeout could otherwise end its call before the deadline
/// does, as a failure of its own.
fn shorter_timeout(policy: Duration, asked: Option<Duration>) -> Duration {
    policy.min(asked.unwrap_or(policy))
}

/// Waits for the end of the connection. Dropping the future aborts the connection.
async fn drive(connection: Driver) -> Result<(), Error> {
    connection.await.map_err(|error| ExchangeError::from_hyper(&error).into_error())
}
