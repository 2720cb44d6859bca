//! Recording of exchanges: the requests of a call reach their servers, and what these answer becomes a part of a case.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fumehood::boxed::BoxFuture;
use fumehood::{Resolver, SystemResolver};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::http::request::Parts as RequestHead;
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::case::played_json;

/// Maximum size of the body of an answer, in bytes. A file of cases is for people, too.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Maximum time to connect to an address. The limits of the call stop what takes longer altogether.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Headers of answers that a case keeps. Most others change with every answer, or are for one user alone.
const KEPT_HEADERS: [&str; 6] = ["content-type", "etag", "last-modified", "link", "location", "retry-after"];

/// The type of an answer that a case has as a value.
pub(super) const JSON: &str = "application/json";

/// An exchange as it was seen, for `[[case.http]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedExchange {
    /// The method and the whole address.
    pub request: String,
    /// The body of the request, if it had one.
    pub sends: Option<String>,
    /// The status of the answer.
    pub status: u16,
    /// The headers of the answer that a case keeps.
    pub headers: BTreeMap<String, String>,
    /// The body of the answer.
    pub body: String,
}

/// The exchanges of a call, and the requests whose answer no case can have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    /// The exchanges, in order.
    pub exchanges: Vec<RecordedExchange>,
    /// The requests, each with the reason.
    pub failures: Vec<String>,
}

/// Passes requests on, and keeps what was answered.
pub(super) struct HttpRecorder {
    tls: TlsConnector,
    places: Mutex<Places>,
    recording: Mutex<Recording>,
}

/// Places of servers. The sandbox resolves names and admits addresses, and nothing else is connected to.
#[derive(Debug, Default)]
struct Places {
    resolved: BTreeMap<String, Vec<IpAddr>>,
    admitted: BTreeSet<(IpAddr, u16)>,
}

/// Resolves names as usual, and sends every request to the recorder.
struct RecordingResolver {
    system: SystemResolver,
    recorder: Arc<HttpRecorder>,
    place: SocketAddr,
}

impl Resolver for RecordingResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = self.system.resolve(host).await?;
            lock(&self.recorder.places).resolved.insert(host.to_owned(), found.clone());
            Ok(found)
        })
    }

    fn endpoint(&self, address: IpAddr, port: u16) -> SocketAddr {
        lock(&self.recorder.places).admitted.insert((address, port));
        self.place
    }
}

impl std::fmt::Debug for HttpRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpRecorder").finish_non_exhaustive()
    }
}

/// Locks a mutex, whose value is whole even after a panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HttpRecorder {
    /// Prepares a recorder, which checks servers with the certificates of the system.
    pub(super) fn new() -> Result<Self, String> {
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(BuilderVerifierExt::with_platform_verifier)
            .map_err(|error| error.to_string())?;
        let tls = TlsConnector::from(Arc::new(config.with_no_client_auth()));
        Ok(Self { tls, places: Mutex::default(), recording: Mutex::default() })
    }

    /// Returns the resolver that sends every request to `place`, where this recorder serves.
    pub(super) fn resolver(self: &Arc<Self>, place: SocketAddr) -> Arc<dyn Resolver> {
        Arc::new(RecordingResolver { system: SystemResolver::default(), recorder: Arc::clone(self), place })
    }

    /// Returns what was recorded since the last time.
    pub(super) fn finish(&self) -> Recording {
        std::mem::take(&mut *lock(&self.recording))
    }

    /// Passes a request on, and returns the answer as a case will give it.
    pub(super) async fn answer(
        &self,
        scheme: &str,
        host: &str,
        head: RequestHead,
        body: Bytes,
    ) -> Response<Full<Bytes>> {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let line = format!("{} {scheme}://{host}{path}", head.method);
        let exchanged = match String::from_utf8(body.to_vec()) {
            Ok(sent) => self.exchange(scheme, host, head, body).await.and_then(|answer| record(&line, sent, &answer)),
            Err(_) => Err("its body is no text".to_owned()),
        };
        match exchanged {
            Ok(exchange) => {
                let response = exchange.to_response();
                lock(&self.recording).exchanges.push(exchange);
                response
            }
            Err(reason) => {
                let message = format!("{line}: {reason}");
                lock(&self.recording).failures.push(message.clone());
                failure(message)
            }
        }
    }

    async fn exchange(
        &self,
        scheme: &str,
        host: &str,
        mut head: RequestHead,
        body: Bytes,
    ) -> Result<Response<Bytes>, String> {
        for name in [ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
            head.headers.remove(name);
        }
        let request = Request::from_parts(head, Full::new(body));
        let authority: Authority = host.parse().map_err(|_| format!("`{host}` is no host"))?;
        let is_encrypted = scheme == "https";
        let stream = self.connect(&authority, if is_encrypted { 443 } else { 80 }).await?;
        if !is_encrypted {
            return send(stream, request).await;
        }
        let name = ServerName::try_from(authority.host().to_owned()).map_err(|error| error.to_string())?;
        let encrypted = self.tls.connect(name, stream).await.map_err(|error| format!("cannot encrypt: {error}"))?;
        send(encrypted, request).await
    }

    /// Connects to the first address of a server that accepts, if the sandbox has admitted them.
    async fn connect(&self, authority: &Authority, default_port: u16) -> Result<TcpStream, String> {
        let port = authority.port_u16().unwrap_or(default_port);
        let mut failed = "its address was not admitted".to_owned();
        for address in self.admitted_addresses(authority.host(), port) {
            match timeout(CONNECT_TIMEOUT, TcpStream::connect((address, port))).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failed = format!("cannot connect to {address}: {error}"),
                Err(_late) => failed = format!("{address} does not answer"),
            }
        }
        Err(failed)
    }

    /// Returns the addresses of a host. The sandbox admits all of them or none.
    fn admitted_addresses(&self, host: &str, port: u16) -> Vec<IpAddr> {
        let places = lock(&self.places);
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let found = literal.map(|address: IpAddr| vec![address]);
        let found = found.or_else(|| places.resolved.get(&host.to_ascii_lowercase()).cloned()).unwrap_or_default();
        let is_admitted = found.iter().any(|address| places.admitted.contains(&(address.to_canonical(), port)));
        if is_admitted { found } else { Vec::new() }
    }
}

/// Sends a request on a new connection, and reads the answer.
async fn send<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, String> {
    let connected = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.map_err(|error| error.to_string())?;
    let exchange = async move {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
        let body = body.map_err(|error| format!("cannot read the answer, of at most 1 MiB: {error}"))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    // The connection ends when nothing can be sent on it any more.
    let (_ended, answer) = tokio::join!(connection, exchange);
    answer
}

fn record(request: &str, sent: String, answer: &Response<Bytes>) -> Result<RecordedExchange, String> {
    let body = std::str::from_utf8(answer.body());
    let body = body.map_err(|_| "the answer is no text, which is all that a case can have".to_owned())?;
    let mut exchange = RecordedExchange {
        request: request.to_owned(),
        sends: (!sent.is_empty()).then_some(sent),
        status: answer.status().as_u16(),
        headers: kept_headers(answer.headers()),
        body: body.to_owned(),
    };
    exchange.normalize_json();
    Ok(exchange)
}

fn kept_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let is_kept = |name: &str| KEPT_HEADERS.contains(&name) || name.contains("ratelimit");
    let kept = headers.iter().filter(|(name, _)| is_kept(name.as_str()));
    kept.filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))).collect()
}

fn failure(message: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(message));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

impl RecordedExchange {
    /// Gives an answer in JSON the form that it has when a case plays it from a value, so that the tool gets the same text in
    /// both calls.
    fn normalize_json(&mut self) {
        let mime = self.headers.get_mut("content-type");
        let Some(mime) = mime.filter(|mime| mime.split(';').next().is_some_and(|mime| mime.trim() == JSON)) else {
            return;
        };
        let parsed = serde_json::from_str::<Value>(&self.body).ok();
        if let Some(played) = parsed.as_ref().and_then(played_json) {
            JSON.clone_into(mime);
            self.body = played;
        }
    }

    fn to_response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::builder().status(self.status);
        for (name, value) in &self.headers {
            response = response.header(name, value);
        }
        let response = response.body(Full::from(self.body.clone()));
        response.unwrap_or_else(|error| failure(error.to_string()))
    }

    /// Returns whether any part of the exchange has this text.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        let Self { request, sends, headers, body, status: _ } = self;
        let parts = [request, body].into_iter().chain(sends).chain(headers.values());
        parts.into_iter().any(|part| part.contains(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_played_as_it_was_recorded() {
        let answer = |mime: &str, body: &'static str| {
            let response = Response::builder().header("content-type", mime).header("set-cookie", "a=b");
            record("GET https://a.example/", String::new(), &response.body(Bytes::from(body)).unwrap()).unwrap()
        };
        let changed = answer("application/json; charset=utf-8", "{\"b\": 1, \"a\": 2.0}");
        assert_eq!(serde_json::from_str::<Value>(&changed.body).unwrap(), serde_json::json!({"a": 2.0, "b": 1}));
        assert_eq!(played_json(&serde_json::from_str(&changed.body).unwrap()).unwrap(), changed.body);
        assert_eq!(changed.headers, BTreeMap::from([("content-type".to_owned(), JSON.to_owned())]));
        for (mime, body) in [(JSON, "{\"b\": null}"), (JSON, "{"), ("text/plain", "{\"b\": 1}")] {
            assert_eq!(answer(mime, body).body, body, "{mime}");
        }
        let binary = Response::new(Bytes::from_static(b"\xff"));
        assert!(record("GET https://a.example/", String::new(), &binary).unwrap_err().contains("no text"));
    }
}
