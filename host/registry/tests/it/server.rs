//! A small registry in memory, which behaves well unless a test tells it otherwise.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fumehood_core::digest::Digest;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub(crate) type Body = UnsyncBoxBody<Bytes, std::io::Error>;
type Fault = Box<dyn Fn(&ReceivedRequest, &Contents) -> Option<Response<Body>> + Send + Sync>;

/// Key of the bytes of an upload that comes in pieces.
const SESSION: &str = "session";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A request that the registry has seen.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
}

/// The contents of the registry.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) blobs: HashMap<String, Bytes>,
    /// By repository and tag or digest.
    pub(crate) manifests: HashMap<(String, String), (String, Bytes)>,
    pub(crate) seen: Vec<ReceivedRequest>,
}

/// The kind of authorization that the registry asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    None,
    Basic,
    Bearer,
}

pub(crate) struct Options {
    pub(crate) has_referrers: bool,
    pub(crate) auth: Auth,
    pub(crate) fault: Option<Fault>,
    pub(crate) tls: Option<tokio_rustls::TlsAcceptor>,
}

impl Default for Options {
    fn default() -> Self {
        Self { has_referrers: true, auth: Auth::None, fault: None, tls: None }
    }
}

/// A registry on a free port of this machine.
pub(crate) struct TestRegistry {
    pub(crate) address: SocketAddr,
    contents: Arc<Mutex<Contents>>,
}

/// The user and password of registries that ask for them.
pub(crate) const USER: &str = "ann";
pub(crate) const PASSWORD: &str = "correct horse";
const TOKEN: &str = "token-of-the-test";

impl TestRegistry {
    pub(crate) async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    /// Starts a registry with a fault: an answer that takes the place of the good one.
    pub(crate) async fn with_fault(
        fault: impl Fn(&ReceivedRequest, &Contents) -> Option<Response<Body>> + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(Options { fault: Some(Box::new(fault)), ..Options::default() }).await
    }

    pub(crate) async fn start_with(options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let contents = Arc::new(Mutex::new(Contents::default()));
        let shared = contents.clone();
        let options = Arc::new(options);
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                stream.set_nodelay(true).unwrap();
                let shared = shared.clone();
                let options = options.clone();
                tokio::spawn(async move {
                    let answer = {
                        let options = options.clone();
                        service_fn(move |request| answer(request, shared.clone(), options.clone(), address))
                    };
                    // A client that goes away is no error of the test.
                    match &options.tls {
                        None => drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await),
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
                        }
                    }
                });
            }
        });
        Self { address, contents }
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap()
    }

    /// Returns the paths of all requests of a method so far.
    pub(crate) fn paths(&self, method: &Method) -> Vec<String> {
        self.contents().seen.iter().filter(|seen| seen.method == method).map(|seen| seen.path.clone()).collect()
    }
}

pub(crate) fn full(status: u16, bytes: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync();
    Response::builder().status(status).body(body).unwrap()
}

/// Returns an answer whose body comes in pieces.
pub(crate) fn pieces(status: u16, pieces: Vec<(Duration, std::io::Result<Bytes>)>) -> Response<Body> {
    let pieces = stream::unfold(pieces.into_iter(), |mut rest| async move {
        let (delay, piece) = rest.next()?;
        tokio::time::sleep(delay).await;
        Some((piece.map(Frame::data), rest))
    });
    Response::builder().status(status).body(StreamBody::new(pieces).boxed_unsync()).unwrap()
}

/// Returns an answer without an end.
pub(crate) fn endless(status: u16, piece: Bytes, delay: Duration) -> Response<Body> {
    let pieces = stream::unfold(piece, move |piece| async move {
        tokio::time::sleep(delay).await;
        Some((Ok(Frame::data(piece.clone())), piece))
    });
    Response::builder().status(status).body(StreamBody::new(pieces).boxed_unsync()).unwrap()
}

pub(crate) fn with_header(mut response: Response<Body>, name: &'static str, value: &str) -> Response<Body> {
    response.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    response
}

async fn answer(
    request: Request<Incoming>,
    contents: Arc<Mutex<Contents>>,
    options: Arc<Options>,
    address: SocketAddr,
) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let seen = ReceivedRequest { method: parts.method, path: parts.uri.path().to_owned(), headers: parts.headers };
    contents.lock().unwrap().seen.push(seen.clone());
    let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if let Some(refused) = refuse(&seen, options.auth, address) {
        return Ok(refused);
    }
    if let Some(fault) = &options.fault
        && let Some(response) = fault(&seen, &contents.lock().unwrap())
    {
        return Ok(response);
    }
    Ok(route(&seen, bytes, &mut contents.lock().unwrap(), options.has_referrers))
}

/// Asks for credentials, or hands out a token for good ones.
fn refuse(seen: &ReceivedRequest, auth: Auth, address: SocketAddr) -> Option<Response<Body>> {
    let basic = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
    let sent = seen.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if seen.path == "/token" {
        let token = json!({ "token": TOKEN, "expires_in": 300 }).to_string();
        return Some(if sent == basic { full(200, token) } else { full(401, "") });
    }
    let (is_good, challenge) = match auth {
        Auth::None => return None,
        Auth::Basic => (sent == basic, "Basic realm=\"test\"".to_owned()),
        Auth::Bearer => {
            let challenge = format!("Bearer realm=\"http://{address}/token\",service=\"test\"");
            (sent == format!("Bearer {TOKEN}"), challenge)
        }
    };
    if is_good { None } else { Some(with_header(full(401, ""), "www-authenticate", &challenge)) }
}

fn route(seen: &ReceivedRequest, body: Bytes, contents: &mut Contents, has_referrers: bool) -> Response<Body> {
    let Some(path) = seen.path.strip_prefix("/v2/") else { return full(404, "") };
    let parts: Vec<&str> = path.split('/').collect();
    let Some(at) = parts.iter().rposition(|part| ["manifests", "blobs", "referrers"].contains(part)) else {
        return full(404, "");
    };
    let repository = parts[..at].join("/");
    let kind = parts[at];
    let rest = parts[at + 1..].join("/");
    match (kind, seen.method.as_str()) {
        ("blobs", "POST") => {
            with_header(full(202, ""), "location", &format!("/v2/{repository}/blobs/uploads/session?state=1"))
        }
        ("blobs", "PATCH") => {
            let uploaded = contents.blobs.remove(SESSION).unwrap_or_default();
            let uploaded = [uploaded, body].concat();
            let range = format!("0-{}", uploaded.len() - 1);
            contents.blobs.insert(SESSION.to_owned(), uploaded.into());
            let response = with_header(full(202, ""), "range", &range);
            with_header(response, "location", &format!("/v2/{repository}/blobs/uploads/session?state=2"))
        }
        ("blobs", "PUT") => {
            let uploaded = contents.blobs.remove(SESSION).unwrap_or_default();
            let body = Bytes::from([uploaded, body].concat());
            contents.blobs.insert(Digest::of(&body).to_string(), body);
            with_header(full(201, ""), "location", "/")
        }
        ("blobs", _) => match contents.blobs.get(&rest) {
            Some(blob) => blob_answer(seen, blob),
            None => full(404, ""),
        },
        ("manifests", "PUT") => put_manifest(seen, body, contents, repository, rest, has_referrers),
        ("manifests", _) => match contents.manifests.get(&(repository, rest)) {
            Some((media_type, bytes)) => with_header(full(200, bytes.clone()), "content-type", media_type),
            None => full(404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#),
        },
        ("referrers", _) if has_referrers => {
            with_header(full(200, referrers(contents, &repository, &rest)), "content-type", INDEX)
        }
        _ => full(404, ""),
    }
}

fn blob_answer(seen: &ReceivedRequest, blob: &Bytes) -> Response<Body> {
    let range = seen.headers.get("range").and_then(|range| range.to_str().ok());
    let from = range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    match from {
        Some(from) if from < blob.len() => {
            let range = format!("bytes {from}-{}/{}", blob.len() - 1, blob.len());
            with_header(full(206, blob.slice(from..)), "content-range", &range)
        }
        _ => full(200, blob.clone()),
    }
}

fn put_manifest(
    seen: &ReceivedRequest,
    body: Bytes,
    contents: &mut Contents,
    repository: String,
    version: String,
    has_referrers: bool,
) -> Response<Body> {
    let media_type = seen.headers["content-type"].to_str().unwrap().to_owned();
    let digest = Digest::of(&body).to_string();
    let value: Value = serde_json::from_slice(&body).unwrap();
    contents.manifests.insert((repository.clone(), digest.clone()), (media_type.clone(), body.clone()));
    contents.manifests.insert((repository, version), (media_type, body));
    let response = with_header(full(StatusCode::CREATED.as_u16(), ""), "docker-content-digest", &digest);
    match value["subject"]["digest"].as_str() {
        Some(subject) if has_referrers => with_header(response, "oci-subject", subject),
        _ => response,
    }
}

fn referrers(contents: &Contents, repository: &str, subject: &str) -> String {
    let mut entries = Vec::new();
    for ((place, version), (media_type, bytes)) in &contents.manifests {
        let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
        if place == repository && version.starts_with("sha256:") && value["subject"]["digest"] == subject {
            entries.push(json!({ "mediaType": media_type, "digest": version, "size": bytes.len(),
                "artifactType": value["artifactType"] }));
        }
    }
    json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries }).to_string()
}
