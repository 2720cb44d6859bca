//! A client for the running calls of a server.

use std::fmt;
use std::time::Duration;

use fumehood_core::text::sanitize::printable;
use fumehood_transport::{Request, Response, ResponseLimits, Roots, Transport, TransportError};
use http::Method;
use url::Url;

use crate::live::LiveSnapshot;
use crate::service::LIVE_PATH;

/// The path of the calls, as the HTTP API has it.
const CALLS_PATH: &str = "/v1/calls";
/// Maximum time of one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of an answer, in bytes: far more than a thousand calls have.
const MAX_ANSWER_BYTES: u64 = 4 << 20;
/// Maximum length of a reason of the server, in characters.
const MAX_REASON_CHARS: usize = 300;

/// A client for the running calls of one server.
pub struct LiveClient {
    url: Url,
    token: Option<String>,
    http: Transport,
}

impl fmt::Debug for LiveClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveClient").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

/// An error of a client. None of them contains the token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveClientError {
    /// The address is not that of a server.
    #[error("invalid server URL `{0}`; expected one such as http://127.0.0.1:8080")]
    Address(String),
    /// The HTTP client could not be created.
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
    /// The server did not answer.
    #[error("{url} does not answer: {reason}; check that `fumehood serve` is running there")]
    Unreachable {
        /// The address of the server.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The server wants another token.
    #[error("{0} requires a bearer token: set FUMEHOOD_MCP_TOKEN, or name a file with `--token-file`")]
    Unauthorized(String),
    /// The server does not know the token.
    #[error("{0} does not accept the bearer token; check FUMEHOOD_MCP_TOKEN, or the file of `--token-file`")]
    TokenRefused(String),
    /// The server refuses the request, whoever sends it.
    #[error("{url} refuses the request: {reason}")]
    Forbidden {
        /// The address of the server.
        url: String,
        /// Its reason, in printable characters.
        reason: String,
    },
    /// The server is too busy, or starts or ends.
    #[error("{0} is too busy or not ready; try again later")]
    Busy(String),
    /// The server has no running calls to show.
    #[error(
        "{0} does not show running calls: it is another program, an older version, or has `no_metrics` in [telemetry]"
    )]
    NotFound(String),
    /// The answer is not in the form of this client.
    #[error("{0} sent an unexpected answer; check that it is a `fumehood serve` of this version")]
    Answer(String),
}

impl LiveClient {
    /// Creates a client of the server at this base URL. No request is sent yet.
    ///
    /// # Errors
    /// If the address is invalid, or the root certificates cannot be read.
    pub fn new(base: &str, token: Option<String>) -> Result<Self, LiveClientError> {
        let address = || LiveClientError::Address(base.to_owned());
        let url = Url::parse(base).map_err(|_| address())?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(address());
        }
        let url = url.join(LIVE_PATH).map_err(|_| address())?;
        let http =
            Transport::builder().roots(Roots::if_encrypted(url.scheme() == "https")).max_idle_connections(1).build();
        let http = http.map_err(|error| LiveClientError::Setup(error.to_string()))?;
        Ok(Self { url, token, http })
    }

    /// Returns the state of the calls now.
    ///
    /// # Errors
    /// See [`LiveClientError`].
    pub async fn snapshot(&self) -> Result<LiveSnapshot, LiveClientError> {
        let answer = self.send(Request::get(self.url.clone())).await?;
        match answer.status().as_u16() {
            200 => {}
            404 => return Err(LiveClientError::NotFound(self.origin())),
            _ => return Err(self.unexpected(&answer)),
        }
        let body = answer.bytes().await.map_err(|error| match error {
            TransportError::TooLarge(_) => LiveClientError::Answer(self.origin()),
            error => self.unreachable(&error),
        })?;
        serde_json::from_slice(&body).map_err(|_| LiveClientError::Answer(self.origin()))
    }

    /// Stops a call, by its [`id`](crate::LiveCall::id). Returns false if it has ended or is not a call of this token's
    /// client, or if the server has no HTTP API.
    ///
    /// # Errors
    /// See [`LiveClientError`].
    pub async fn stop(&self, id: &str) -> Result<bool, LiveClientError> {
        let mut url = self.url.clone();
        url.set_path(CALLS_PATH);
        // It becomes one segment, whatever it consists of.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.push(id);
        }
        // Otherwise the result would say that the caller stopped waiting.
        url.set_query(Some("by=operator"));
        let answer = self.send(Request::new(Method::DELETE, url)).await?;
        match answer.status().as_u16() {
            202 => Ok(true),
            404 => Ok(false),
            _ => Err(self.unexpected(&answer)),
        }
    }

    async fn send(&self, request: Request) -> Result<Response, LiveClientError> {
        let request = match &self.token {
            Some(token) => request.bearer(token),
            None => request,
        };
        let limits = ResponseLimits::within(TIMEOUT, MAX_ANSWER_BYTES);
        let answer = self.http.send(request, limits).await.map_err(|error| self.unreachable(&error))?;
        match answer.status().as_u16() {
            401 if self.token.is_none() => Err(LiveClientError::Unauthorized(self.origin())),
            401 => Err(LiveClientError::TokenRefused(self.origin())),
            403 => Err(self.forbidden(answer).await),
            429 | 503 => Err(LiveClientError::Busy(self.origin())),
            _ => Ok(answer),
        }
    }

    /// Creates the error of a refused request, with the reason in its problem details (RFC 9457).
    async fn forbidden(&self, answer: Response) -> LiveClientError {
        #[derive(serde::Deserialize)]
        struct Problem {
            detail: String,
        }
        let body = answer.bytes().await.unwrap_or_default();
        let reason = match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => printable(&problem.detail).chars().take(MAX_REASON_CHARS).collect(),
            Err(_) => "it gives no reason".to_owned(),
        };
        LiveClientError::Forbidden { url: self.origin(), reason }
    }

    fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    fn unexpected(&self, answer: &Response) -> LiveClientError {
        let reason = format!("it answered with status {}", answer.status().as_u16());
        LiveClientError::Unreachable { url: self.origin(), reason }
    }

    fn unreachable(&self, error: &TransportError) -> LiveClientError {
        LiveClientError::Unreachable { url: self.origin(), reason: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[tokio::test]
    async fn refusals_say_what_to_do() {
        for (status, token, expected) in [
            ("401 Unauthorized", None, "requires a bearer token"),
            ("401 Unauthorized", Some("t"), "does not accept the bearer token"),
            ("403 Forbidden", Some("t"), "refuses the request: another host"),
            ("503 Service Unavailable", None, "is too busy or not ready"),
        ] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let serving = std::thread::spawn(move || {
                let mut stream = listener.accept().unwrap().0;
                let _head = stream.read(&mut [0; 4096]).unwrap();
                let body = r#"{"detail": "another host"}"#;
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close", body.len());
                write!(stream, "{head}\r\n\r\n{body}").unwrap();
            });
            let client = LiveClient::new(&url, token.map(str::to_owned)).unwrap();
            let error = client.snapshot().await.unwrap_err().to_string();
            assert!(error.contains(expected), "{status}: {error}");
            serving.join().unwrap();
        }
    }

    #[test]
    fn rejects_what_is_no_address() {
        for base in ["", "127.0.0.1:8080", "ftp://a", "http://"] {
            assert!(LiveClient::new(base, None).is_err(), "{base}");
        }
    }
}
