//! The proxy of an ordinary program: the one address that it may connect to. Each of its requests is compared with the
//! rules of its grant, and names are resolved here.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fumehood_core::call::Refusal;
use fumehood_core::policy::permission::http::{Permit, ProxyGrant, Scheme};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use url::{Host, Position};

use super::Network;
use super::proxy_listener::{ProxyAddress, ProxyListeners};

/// Maximum number of connections of a program. Further ones wait.
const MAX_CONNECTIONS: usize = 64;
/// Maximum number of refusals that are kept.
const MAX_REFUSALS: usize = 64;
/// Maximum number of addresses of one host that are tried.
const MAX_ADDRESSES: usize = 8;
/// The name with which the program logs in to the proxy.
const USER: &str = "fumehood";
/// Number of random bytes in the password.
const PASSWORD_BYTES: usize = 16;
/// Headers that concern one connection only (RFC 9110, section 7.6.1), and the password.
const CONNECTION_HEADERS: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
];

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

/// The requests of a program that were refused.
#[derive(Debug, Default)]
pub struct RefusalLog(Mutex<Refusals>);

#[derive(Debug, Default)]
struct Refusals {
    count: u64,
    last: VecDeque<Refusal>,
}

impl RefusalLog {
    fn lock(&self) -> MutexGuard<'_, Refusals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, refusal: Refusal) {
        let mut refusals = self.lock();
        refusals.count += 1;
        if refusals.last.len() == MAX_REFUSALS {
            refusals.last.pop_front();
        }
        refusals.last.push_back(refusal);
    }

    /// Returns the number of refusals so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Returns the refusals after the first `count`, at most the last 64.
    #[must_use]
    pub fn since(&self, count: u64) -> Vec<Refusal> {
        let refusals = self.lock();
        let new = usize::try_from(refusals.count.saturating_sub(count)).unwrap_or(usize::MAX);
        refusals.last.iter().skip(refusals.last.len().saturating_sub(new)).cloned().collect()
    }
}

/// A proxy for one program, on a port that the program sees as one of this machine. Dropping it ends all of its connections.
#[derive(Debug)]
pub struct ProgramProxy {
    address: ProxyAddress,
    password: String,
    serving: AbortHandle,
}

impl ProgramProxy {
    /// Starts a proxy. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If this machine has no free port, or no random numbers.
    pub fn start(grant: ProxyGrant, network: Network, refusals: Arc<RefusalLog>) -> io::Result<Self> {
        let listeners = ProxyListeners::bind()?;
        let address = listeners.address().clone();
        let mut random = [0; PASSWORD_BYTES];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let password = blake3::hash(&random).to_hex().to_string();
        let login = blake3::hash(format!("Basic {}", STANDARD.encode(format!("{USER}:{password}"))).as_bytes());
        let door = Arc::new(Door { grant, network, refusals, login });
        let serving = tokio::spawn(listen_and_serve(listeners, door)).abort_handle();
        Ok(Self { address, password, serving })
    }

    /// Returns its address, for [`ProgramJail::proxy`](crate::ProgramJail::proxy). Only one program can have it.
    #[must_use]
    pub fn address(&self) -> &ProxyAddress {
        &self.address
    }

    /// Returns its URL, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{USER}:{}@{}:{}", self.password, Ipv4Addr::LOCALHOST, self.address.port)
    }
}

impl Drop for ProgramProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Everything that decides on a request.
struct Door {
    grant: ProxyGrant,
    network: Network,
    refusals: Arc<RefusalLog>,
    /// The hash of the header with which the program logs in.
    login: blake3::Hash,
}

/// Serves the program once its process has reported where it listens.
async fn listen_and_serve(listeners: ProxyListeners, door: Arc<Door>) {
    let accepted = listeners.accept().await.and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    match accepted {
        Ok(listener) => serve(listener, door).await,
        Err(error) => tracing::debug!(%error, "the proxy of a program has no listener"),
    }
}

async fn serve(listener: TcpListener, door: Arc<Door>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else { continue };
        let door = Arc::clone(&door);
        connections.spawn(async move {
            // Tunnels are part of the connection's task, so that they end with it.
            let (tunnels, mut opened) = tokio::sync::mpsc::unbounded_channel();
            let answer = service_fn(|request| {
                let door = Arc::clone(&door);
                let tunnels = tunnels.clone();
                async move { Ok::<_, Infallible>(door.answer(request, &tunnels).await) }
            });
            let served = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .with_upgrades();
            let _ended = served.await;
            if let Ok(Tunnel { upgraded, mut server }) = opened.try_recv()
                && let Ok(program) = upgraded.await
            {
                let _ended = tokio::io::copy_bidirectional(&mut TokioIo::new(program), &mut server).await;
            }
            drop(place);
        });
    }
}

/// A connection to a server, for the connection of the program that becomes a tunnel once it is answered.
struct Tunnel {
    upgraded: hyper::upgrade::OnUpgrade,
    server: TcpStream,
}

type Tunnels = tokio::sync::mpsc::UnboundedSender<Tunnel>;

/// The reason that a request has no answer of a server.
enum Failure {
    Refused(Refusal),
    /// With the status and the reason.
    Failed(StatusCode, String),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(StatusCode::BAD_GATEWAY, error.to_string())
}

impl Door {
    async fn answer(&self, request: Request<Incoming>, tunnels: &Tunnels) -> Answer {
        if !self.is_logged_in(request.headers()) {
            let mut answer =
                text(StatusCode::PROXY_AUTHENTICATION_REQUIRED, "log in with the password of HTTP_PROXY".to_owned());
            answer
                .headers_mut()
                .insert(header::PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"fumehood\""));
            return answer;
        }
        let answered = match *request.method() {
            Method::CONNECT => self.open_tunnel(request, tunnels).await,
            _ => self.forward(request).await,
        };
        match answered {
            Ok(answer) => answer,
            Err(Failure::Failed(status, reason)) => text(status, reason),
            Err(Failure::Refused(refusal)) => {
                let reason = refusal.to_string();
                self.refusals.add(refusal);
                text(StatusCode::FORBIDDEN, reason)
            }
        }
    }

    fn is_logged_in(&self, headers: &HeaderMap) -> bool {
        // Comparing hashes takes the same time wherever they differ.
        headers.get(header::PROXY_AUTHORIZATION).is_some_and(|login| blake3::hash(login.as_bytes()) == self.login)
    }

    async fn open_tunnel(&self, request: Request<Incoming>, tunnels: &Tunnels) -> Result<Answer, Failure> {
        let permit = self.grant.decide_tunnel(&request.uri().to_string())?;
        let server = self.connect(&permit).await?;
        let upgraded = hyper::upgrade::on(request);
        tunnels.send(Tunnel { upgraded, server }).map_err(failed)?;
        Ok(text(StatusCode::OK, String::new()))
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Answer, Failure> {
        if request.uri().scheme().is_none() {
            let reason = "this is a proxy; send the whole URL, or CONNECT";
            return Err(Failure::Failed(StatusCode::BAD_REQUEST, reason.to_owned()));
        }
        let permit = self.grant.decide(request.method().as_str(), &request.uri().to_string())?;
        if permit.scheme() != Scheme::Http {
            let reason = "use CONNECT for https";
            return Err(Failure::Failed(StatusCode::BAD_REQUEST, reason.to_owned()));
        }
        let server = self.connect(&permit).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(server)).await.map_err(failed)?;
        // Ends with the body of the answer, or with the connection of the program.
        tokio::spawn(connection);
        let answer = sender.send_request(prepare(request, &permit)?).await.map_err(failed)?;
        let (mut head, body) = answer.into_parts();
        remove_connection_headers(&mut head.headers);
        Ok(Response::from_parts(head, body.boxed()))
    }

    /// Connects to the host of a permit. Its name is looked up here, and nowhere else.
    async fn connect(&self, permit: &Permit) -> Result<TcpStream, Failure> {
        let patience = self.grant.limits().connect;
        let connecting = async {
            let addresses = match permit.host() {
                Host::Ipv4(address) => vec![IpAddr::V4(*address)],
                Host::Ipv6(address) => vec![IpAddr::V6(*address)],
                Host::Domain(name) => self.network.resolver.resolve(name).await.map_err(failed)?,
            };
            self.grant.admit(permit, &addresses)?;
            let mut last = failed("the host has no address");
            for address in addresses.iter().take(MAX_ADDRESSES) {
                let place = self.network.resolver.endpoint(address.to_canonical(), permit.port());
                match TcpStream::connect(place).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = failed(error),
                }
            }
            Err(last)
        };
        match timeout(patience, connecting).await {
            Ok(connected) => connected,
            Err(_late) => Err(Failure::Failed(StatusCode::GATEWAY_TIMEOUT, "the host does not answer".to_owned())),
        }
    }
}

/// Turns a request to a proxy into one to the server: the URL that was compared with the rules, and its host.
fn prepare(request: Request<Incoming>, permit: &Permit) -> Result<Request<Incoming>, Failure> {
    let (mut head, body) = request.into_parts();
    remove_connection_headers(&mut head.headers);
    head.headers.insert(header::HOST, HeaderValue::from_str(&permit.authority()).map_err(failed)?);
    head.uri = permit.url()[Position::BeforePath..Position::AfterQuery].parse::<Uri>().map_err(failed)?;
    Ok(Request::from_parts(head, body))
}

fn remove_connection_headers(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(|name| name.trim().to_owned()))
        .collect();
    for name in named {
        headers.remove(name.as_str());
    }
    for name in &CONNECTION_HEADERS {
        headers.remove(name);
    }
}

fn text(status: StatusCode, text: String) -> Answer {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
}
