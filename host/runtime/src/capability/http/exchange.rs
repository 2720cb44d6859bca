//! One request and its response: the name is looked up once, every address is checked, and one of those is connected
//! to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::permission::Grant;
use fumehood_core::permission::http::{HttpGrant, HttpLimits, Permit, Reach, Scheme};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Host;
use wasmtime_wasi::runtime::AbortOnDropJoinHandle;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::account::{Direction, Open};
use super::body::{Inbound, Outbound};
use super::head;
use super::place::{NoPlace, Places, RequestPermit};
use super::reason::Reason;
use crate::capability::refusals::Refusals;
use crate::clock::Deadline;
use crate::network::Network;

/// Maximum size of the read buffer and of the headers of a response.
const MAX_BUFFER_BYTES: usize = 64 << 10;
/// Maximum number of headers of a response.
const MAX_HEADERS: usize = 100;
/// Maximum number of addresses of one host that are tried.
const MAX_ADDRESSES: usize = 8;

/// The future that transmits the bodies of an exchange; they make no progress unless it is polled.
pub(crate) type Transmitted = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// One request that was admitted, with everything that is needed to send it.
pub(super) struct Exchange {
    pub(super) grant: Arc<Grant>,
    pub(super) permit: Permit,
    pub(super) network: Network,
    pub(super) deadline: Deadline,
    pub(super) options: RequestOptions,
    pub(super) refusals: Refusals,
    pub(super) open: Open,
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
        places: Places,
        request: Request<WasiBody>,
    ) -> Result<(Response<WasiBody>, Transmitted), Error> {
        match self.attempt(places, request).await {
            Ok((response, driver, place)) => {
                let limits = self.grant.http().map(HttpGrant::limits).copied().unwrap_or_default();
                let between_bytes = within(limits.between_bytes, self.options.between_bytes_timeout);
                let inbound = |body| Inbound::new(body, between_bytes, self.open, place).boxed_unsync();
                Ok((response.map(inbound), Box::new(drive(driver))))
            }
            Err(reason) => {
                // Recorded before the report is dropped, or it would have no reason. Counting over the limit breaks the
                // connection; the limit is then the better reason, and was recorded first.
                self.open.0.failed(&reason.to_string());
                Err(reason.into_error())
            }
        }
    }

    async fn attempt(
        &self,
        places: Places,
        request: Request<WasiBody>,
    ) -> Result<(Response<Incoming>, Driver, RequestPermit), Reason> {
        let http = self.grant.http().ok_or(Reason::Prohibited)?;
        let limits = *http.limits();
        let patience = || within(limits.connect, self.options.connect_timeout);
        let place = places.taken(patience).await.map_err(|no_place| match no_place {
            NoPlace::Ended => Reason::Broken,
            NoPlace::Busy => self.busy(),
        })?;
        let (stream, reach) = self.connect(http, &limits).await?;
        let request = self.prepared(request, reach)?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_BUFFER_BYTES)
            .max_headers(MAX_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Reason::of_hyper(&error))?;
        let driver = wasmtime_wasi::runtime::spawn(connection);
        let patience = within(limits.first_byte, self.options.first_byte_timeout);
        let response = match timeout(patience, sender.send_request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) if self.open.0.has_failed() => return Err(Reason::TooMuchOut),
            Ok(Err(error)) => return Err(Reason::of_hyper(&error)),
            Err(_late) => return Err(Reason::SlowResponse),
        };
        self.open.0.answered(response.status().as_u16());
        let received = head::headers_size(response.headers());
        if received > MAX_BUFFER_BYTES {
            // The library notices only what does not arrive all at once.
            return Err(Reason::TooMuchHead);
        }
        self.open.0.count(Direction::In, received).map_err(|_| Reason::TooMuchIn)?;
        Ok((response, driver, place))
    }

    /// Records that no permit was available, and returns the error. The tool is not at fault, and can only wait.
    fn busy(&self) -> Reason {
        let most = self.network.most_requests();
        self.refusals.used_up(format!(
            "http: all calls of this host together have {most} requests running, and may have no more; call again later"
        ));
        Reason::Busy(most)
    }

    fn prepared(&self, mut request: Request<WasiBody>, reach: Reach) -> Result<Request<Outbound>, Reason> {
        head::prepare(&mut request, &self.permit, reach, self.grant.secrets())?;
        self.open.0.count(Direction::Out, head::size(&request)).map_err(|_| Reason::TooMuchOut)?;
        Ok(request.map(|body| Outbound::new(body, self.open.0.clone())))
    }

    /// Connects to the host, with TLS for `https`.
    async fn connect(&self, http: &HttpGrant, limits: &HttpLimits) -> Result<(Box<dyn Stream>, Reach), Reason> {
        let patience = within(limits.connect, self.options.connect_timeout);
        let started = tokio::time::Instant::now();
        let addresses = timeout(patience, self.addresses()).await.map_err(|_| Reason::SlowName)??;
        let reach = http.admit(&self.permit, &addresses).map_err(|refusal| {
            self.refusals.add(refusal);
            Reason::Prohibited
        })?;
        let left = patience.saturating_sub(started.elapsed());
        let stream = self.first_of(&addresses, left).await?;
        // A request is one write; the rest of it should not wait for an acknowledgement of the first part.
        let _ = stream.set_nodelay(true);
        match self.permit.scheme() {
            Scheme::Http => Ok((Box::new(stream), reach)),
            Scheme::Https => {
                let patience = within(limits.tls, self.options.connect_timeout);
                let encrypted = timeout(patience, self.encrypt(stream)).await.map_err(|_| Reason::SlowTls)??;
                Ok((Box::new(encrypted), reach))
            }
        }
    }

    /// Returns all addresses of the host. The name is looked up here and nowhere else.
    async fn addresses(&self) -> Result<Vec<IpAddr>, Reason> {
        let found = match self.permit.host() {
            Host::Ipv4(address) => vec![IpAddr::V4(*address)],
            Host::Ipv6(address) => vec![IpAddr::V6(*address)],
            Host::Domain(name) => self.network.resolver.resolve(name).await.map_err(Reason::NoSuchName)?,
        };
        if found.is_empty() { Err(Reason::NoAddress) } else { Ok(found) }
    }

    /// Connects to the first address that accepts. Each gets an equal share of the time that is left, of the call's as well.
    async fn first_of(&self, addresses: &[IpAddr], patience: Duration) -> Result<TcpStream, Reason> {
        let until = tokio::time::Instant::now() + patience;
        let mut failed = Reason::NoAddress;
        let tried = addresses.len().min(MAX_ADDRESSES);
        for (tried_before, address) in addresses.iter().take(tried).enumerate() {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            let share = match u32::try_from(tried - tried_before) {
                Ok(others @ 2..) => left.min(self.deadline.remaining()) / others,
                _ => left,
            };
            let address = SocketAddr::new(address.to_canonical(), self.permit.port());
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failed = Reason::Connect(error),
                Err(_late) => failed = Reason::SlowConnect,
            }
        }
        Err(failed)
    }

    async fn encrypt(&self, stream: TcpStream) -> Result<impl Stream + use<>, Reason> {
        let config = self.network.tls.config().await.map_err(Reason::NoTrust)?;
        let name = match self.permit.host() {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| Reason::Certificate)?,
            Host::Ipv4(address) => ServerName::from(IpAddr::V4(*address)),
            Host::Ipv6(address) => ServerName::from(IpAddr::V6(*address)),
        };
        let connected = TlsConnector::from(config).connect(name, stream).await;
        connected.map_err(|error: io::Error| Reason::of_tls(&error))
    }
}

/// Returns the smaller of what the policy allows and what the guest asked for.
///
/// The deadline of the call is left out: a guest that sees the timeout could otherwise end its call before the deadline does,
/// as a failure of its own.
fn within(policy: Duration, asked: Option<Duration>) -> Duration {
    policy.min(asked.unwrap_or(policy))
}

/// Drives the connection to its end.
async fn drive(connection: Driver) -> Result<(), Error> {
    connection.await.map_err(|error| Reason::of_hyper(&error).into_error())
}
