//! Servers of a case: one on loopback that answers every request as the case says, or passes it on to record the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fumehood::Resolver;
use fumehood::boxed::BoxFuture;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use super::case::Exchange;
use super::http_recorder::{HttpRecorder, Recording, lock};

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
    answers: Arc<Answers>,
    accepting: AbortHandle,
}

/// Where the answers come from.
#[derive(Debug)]
enum Answers {
    /// The exchanges of a case.
    Case(Mutex<State>),
    /// The servers themselves.
    Servers(Arc<HttpRecorder>),
}

/// Certificates for the server under every name, by an authority that only the sandbox of the cases trusts.
#[derive(Debug)]
struct Certificates {
    authority: CertifiedIssuer<'static, KeyPair>,
    /// The addresses that the cases name. Clients tell only names.
    addresses: Vec<String>,
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
    sends_headers: BTreeMap<String, String>,
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

impl Certificates {
    fn new(addresses: Vec<String>) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { authority, addresses })
    }

    fn issue(&self, name: Option<&str>) -> Option<CertifiedKey> {
        let names = name.map_or_else(|| self.addresses.clone(), |name| vec![name.to_owned()]);
        let key = KeyPair::generate().ok()?;
        let certificate = CertificateParams::new(names).ok()?.signed_by(&key, &self.authority).ok()?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).ok()?;
        CertifiedKey::from_der(vec![certificate.der().clone()], key, &ring::default_provider()).ok()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.issue(hello.server_name()).map(Arc::new)
    }
}

impl HttpMock {
    /// Starts a server that answers as cases say. `hosts` are those that they name. It runs on the runtime of the caller,
    /// until it is dropped.
    pub(super) async fn start(hosts: BTreeSet<String>) -> Result<Self, String> {
        let addresses = hosts.into_iter().filter(|host| host.parse::<IpAddr>().is_ok()).collect();
        Self::serve(Answers::Case(Mutex::default()), addresses).await
    }

    /// Starts a server that passes requests on.
    pub(super) async fn start_recording() -> Result<Self, String> {
        Self::serve(Answers::Servers(Arc::new(HttpRecorder::new()?)), Vec::new()).await
    }

    async fn serve(answers: Answers, addresses: Vec<String>) -> Result<Self, String> {
        let certificates = Certificates::new(addresses).map_err(|error| error.to_string())?;
        let certificate = certificates.authority.der().clone();
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(certificates));
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|error| error.to_string())?;
        let place = listener.local_addr().map_err(|error| error.to_string())?;
        let answers = Arc::new(answers);
        let accepting = tokio::spawn(accept(listener, tls, Arc::clone(&answers))).abort_handle();
        Ok(Self { place, certificate, answers, accepting })
    }

    /// Returns the resolver that sends every request here.
    pub(super) fn resolver(&self) -> Arc<dyn Resolver> {
        match &*self.answers {
            Answers::Case(_) => Arc::new(MockResolver(self.place)),
            Answers::Servers(recorder) => recorder.resolver(self.place),
        }
    }

    /// Returns the certificate that requests have to trust.
    pub(super) fn root(&self) -> &[u8] {
        &self.certificate
    }

    /// Sets the exchanges of a case, in place of those of the one before.
    pub(super) fn expect(&self, exchanges: &[Exchange]) -> Result<(), String> {
        let answers = exchanges.iter().map(Answer::new).collect::<Result<_, String>>()?;
        if let Answers::Case(state) = &*self.answers {
            *lock(state) = State { answers, unanswered: Vec::new() };
        }
        Ok(())
    }

    /// Returns the requests that nothing answers, and the exchanges that were not asked for.
    pub(super) fn finish(&self) -> (Vec<String>, Vec<String>) {
        let Answers::Case(state) = &*self.answers else { return (Vec::new(), Vec::new()) };
        let State { answers, unanswered } = std::mem::take(&mut *lock(state));
        let unused = answers.into_iter().filter(|answer| !answer.is_used).map(|answer| answer.request).collect();
        (unanswered, unused)
    }

    /// Returns what was recorded since the last time.
    pub(super) fn finish_recording(&self) -> Recording {
        match &*self.answers {
            Answers::Case(_) => Recording::default(),
            Answers::Servers(recorder) => recorder.finish(),
        }
    }
}

impl Drop for HttpMock {
    fn drop(&mut self) {
        self.accepting.abort();
    }
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
        let sends = exchange.sends.clone();
        Ok(Self { request, sends, sends_headers: exchange.sends_headers.clone(), response, is_used: false })
    }

    /// Returns whether it answers a request.
    fn fits(&self, line: &str, headers: &HeaderMap, body: &[u8]) -> bool {
        let has = |(name, value): (&String, &String)| headers.get_all(name).iter().any(|found| found == value.as_str());
        self.request == line
            && self.sends.as_ref().is_none_or(|sends| sends.as_bytes() == body)
            && self.sends_headers.iter().all(has)
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, answers: Arc<Answers>) {
    while let Ok((stream, _)) = listener.accept().await {
        let tls = tls.clone();
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            let mut first = [0];
            match stream.peek(&mut first).await {
                Ok(1) if first == [TLS_HANDSHAKE] => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, "https", answers).await;
                    }
                }
                Ok(_) => serve::<TcpStream>(stream, "http", answers).await,
                Err(_) => {}
            }
        });
    }
}

/// Serves one connection. A tool that breaks it off is none of the server's business.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(stream: S, scheme: &'static str, answers: Arc<Answers>) {
    let answer = service_fn(move |request| answer(scheme, request, Arc::clone(&answers)));
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

async fn answer(
    scheme: &str,
    request: Request<Incoming>,
    answers: Arc<Answers>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
    let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    Ok(match &*answers {
        Answers::Servers(recorder) => recorder.answer(scheme, &host, head, body).await,
        Answers::Case(state) => {
            let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
            find_answer(&mut lock(state), format!("{} {scheme}://{host}{path}", head.method), &head.headers, &body)
        }
    })
}

/// Returns the answer to a request: the first one that was not given yet, or else the last one that was.
fn find_answer(state: &mut State, line: String, headers: &HeaderMap, body: &[u8]) -> Response<Full<Bytes>> {
    let fits = |answer: &Answer| answer.fits(&line, headers, body);
    let next = state.answers.iter().position(|answer| !answer.is_used && fits(answer));
    let found = next.or_else(|| state.answers.iter().rposition(fits));
    if let Some(answer) = found.and_then(|index| state.answers.get_mut(index)) {
        answer.is_used = true;
        return answer.response.clone();
    }
    state.unanswered.push(line);
    let mut refused = Response::new(Full::from("this case has no [[case.http]] for the request"));
    *refused.status_mut() = StatusCode::NOT_IMPLEMENTED;
    refused
}
