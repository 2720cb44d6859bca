//! Servers of a case: one on loopback that answers every request as the case says.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use fumehood::Resolver;
use fumehood::boxed::BoxFuture;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use super::case::Exchange;

/// The address of every name. Any public one will do, because nothing connects to it.
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1));
/// The first byte of a connection that is encrypted: a record of the handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;
/// Maximum size of the body of a request, in bytes.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// A server in place of all others.
#[derive(Debug)]
pub(super) struct HttpMock {
    place: SocketAddr,
    certificate: CertificateDer<'static>,
    state: Arc<Mutex<State>>,
    accepting: AbortHandle,
}

#[derive(Debug, Default)]
struct State {
    answers: Vec<Answer>,
    unanswered: Vec<String>,
}

/// An exchange of the case, ready to be sent.
#[derive(Debug)]
struct Answer {
    request: String,
    sends: Option<String>,
    response: Response<Full<Bytes>>,
    is_used: bool,
}

/// Sends every request to the server.
struct MockResolver(SocketAddr);

impl Resolver for MockResolver {
    fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Ok(vec![ADDRESS])))
    }

    fn endpoint(&self, _address: IpAddr, _port: u16) -> SocketAddr {
        self.0
    }
}

impl HttpMock {
    /// Starts a server for these names. It runs on the runtime of the caller, until it is dropped.
    pub(super) async fn start(hosts: BTreeSet<String>) -> Result<Self, String> {
        let hosts: Vec<String> =
            if hosts.is_empty() { vec!["localhost".to_owned()] } else { hosts.into_iter().collect() };
        let made = rcgen::generate_simple_self_signed(hosts).map_err(|error| error.to_string())?;
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(str::to_owned)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(vec![certificate.clone()], key))
            .map_err(|error| error.to_string())?;
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|error| error.to_string())?;
        let place = listener.local_addr().map_err(|error| error.to_string())?;
        let state = Arc::<Mutex<State>>::default();
        let accepting = tokio::spawn(accept(listener, tls, Arc::clone(&state))).abort_handle();
        Ok(Self { place, certificate, state, accepting })
    }

    /// Returns the resolver that sends every request here.
    pub(super) fn resolver(&self) -> Arc<dyn Resolver> {
        Arc::new(MockResolver(self.place))
    }

    /// Returns the certificate that requests have to trust.
    pub(super) fn root(&self) -> &[u8] {
        &self.certificate
    }

    /// Sets the exchanges of a case, in place of those of the one before.
    pub(super) fn expect(&self, exchanges: &[Exchange]) -> Result<(), String> {
        let answers = exchanges.iter().map(Answer::new).collect::<Result<_, String>>()?;
        *lock(&self.state) = State { answers, unanswered: Vec::new() };
        Ok(())
    }

    /// Returns the requests that nothing answers, and the exchanges that were not asked for.
    pub(super) fn finish(&self) -> (Vec<String>, Vec<String>) {
        let State { answers, unanswered } = std::mem::take(&mut *lock(&self.state));
        let unused = answers.into_iter().filter(|answer| !answer.is_used).map(|answer| answer.request).collect();
        (unanswered, unused)
    }
}

impl Drop for HttpMock {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Answer {
    fn new(exchange: &Exchange) -> Result<Self, String> {
        let (method, address) = exchange.parts()?;
        let has_path = address.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
        let request = format!("{method} {address}{}", if has_path { "" } else { "/" });
        let mut response = Response::builder().status(exchange.status);
        let is_typed = exchange.headers.keys().any(|name| name.eq_ignore_ascii_case("content-type"));
        if exchange.is_json() && !is_typed {
            response = response.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in &exchange.headers {
            response = response.header(name, value);
        }
        let response = response.body(Full::from(exchange.response_body()?));
        let response = response.map_err(|error| format!("the answer to `{request}` is not valid: {error}"))?;
        Ok(Self { request, sends: exchange.sends.clone(), response, is_used: false })
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, state: Arc<Mutex<State>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let tls = tls.clone();
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let mut first = [0];
            match stream.peek(&mut first).await {
                Ok(1) if first == [TLS_HANDSHAKE] => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, "https", state).await;
                    }
                }
                Ok(_) => serve::<TcpStream>(stream, "http", state).await,
                Err(_) => {}
            }
        });
    }
}

/// Serves one connection. A tool that breaks it off is none of the server's business.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(stream: S, scheme: &'static str, state: Arc<Mutex<State>>) {
    let answer = service_fn(move |request| answer(scheme, request, Arc::clone(&state)));
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

async fn answer(
    scheme: &str,
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let line = format!("{} {scheme}://{host}{path}", head.method);
    let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut state = lock(&state);
    let fits = |answer: &&mut Answer| {
        answer.request == line && answer.sends.as_ref().is_none_or(|sends| sends.as_bytes() == body)
    };
    if let Some(answer) = state.answers.iter_mut().find(fits) {
        answer.is_used = true;
        return Ok(answer.response.clone());
    }
    state.unanswered.push(line);
    let mut refused = Response::new(Full::from("this case has no [[case.http]] for the request"));
    *refused.status_mut() = StatusCode::NOT_IMPLEMENTED;
    Ok(refused)
}
