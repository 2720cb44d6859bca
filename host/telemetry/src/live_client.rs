//! A client for the running calls of a server.

use std::fmt;
use std::time::Duration;

use url::Url;

use crate::live::LiveSnapshot;
use crate::service::LIVE_PATH;
use crate::tls::http_client;

/// The path of the calls, as the HTTP API has it.
const CALLS_PATH: &str = "/v1/calls";
/// Maximum time of one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of an answer, in bytes: far more than a thousand calls have.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// A client for the running calls of one server.
pub struct LiveClient {
    url: Url,
    token: Option<String>,
    http: reqwest::Client,
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
    #[error("`{0}` is not the address of a server; give one such as http://127.0.0.1:8080")]
    Address(String),
    /// The HTTP client could not be created.
    #[error("the HTTP client cannot be set up: {0}")]
    Setup(String),
    /// The server did not answer.
    #[error("{url} does not answer: {reason}; is `fumehood serve` running there?")]
    Unreachable {
        /// The address of the server.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The server wants another token.
    #[error("{0} does not accept this token; give the server's own with `--token-file`")]
    Unauthorized(String),
    /// The server has no running calls to show.
    #[error("{0} shows no running calls; it is another program, an older one, or has [telemetry] `no_metrics`")]
    NotFound(String),
    /// The answer is not in the form of this client.
    #[error("{0} answered with something else than running calls; is it a `fumehood serve` of this version?")]
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
        let http = http_client(url.scheme() == "https", TIMEOUT);
        let http = http.map_err(|error| LiveClientError::Setup(error.to_string()))?;
        Ok(Self { url, token, http })
    }

    /// Returns the state of the calls now.
    ///
    /// # Errors
    /// See [`LiveClientError`].
    pub async fn snapshot(&self) -> Result<LiveSnapshot, LiveClientError> {
        let mut answer = self.send(self.http.get(self.url.clone())).await?;
        match answer.status().as_u16() {
            200 => {}
            404 => return Err(LiveClientError::NotFound(self.origin())),
            _ => return Err(self.unexpected(&answer)),
        }
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|error| self.unreachable(&error))? {
            if body.len().saturating_add(part.len()) > MAX_ANSWER_BYTES {
                return Err(LiveClientError::Answer(self.origin()));
            }
            body.extend_from_slice(&part);
        }
        serde_json::from_slice(&body).map_err(|_| LiveClientError::Answer(self.origin()))
    }

    /// Stops a call, by its [`handle`](crate::LiveCall::handle). Returns false if it has ended or is not a call of this token's
    /// client, or if the server has no HTTP API.
    ///
    /// # Errors
    /// See [`LiveClientError`].
    pub async fn stop(&self, handle: &str) -> Result<bool, LiveClientError> {
        let mut url = self.url.clone();
        url.set_path(CALLS_PATH);
        // It becomes one segment, whatever it consists of.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.push(handle);
        }
        let answer = self.send(self.http.delete(url)).await?;
        match answer.status().as_u16() {
            202 => Ok(true),
            404 => Ok(false),
            _ => Err(self.unexpected(&answer)),
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, LiveClientError> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        match answer.status().as_u16() {
            401 | 403 => Err(LiveClientError::Unauthorized(self.origin())),
            _ => Ok(answer),
        }
    }

    fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    fn unexpected(&self, answer: &reqwest::Response) -> LiveClientError {
        let reason = format!("it answered with status {}", answer.status().as_u16());
        LiveClientError::Unreachable { url: self.origin(), reason }
    }

    fn unreachable(&self, error: &reqwest::Error) -> LiveClientError {
        // The innermost reason, such as "Connection refused".
        let mut reason: &dyn std::error::Error = error;
        while let Some(source) = reason.source() {
            reason = source;
        }
        LiveClientError::Unreachable { url: self.origin(), reason: reason.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_what_is_no_address() {
        for base in ["", "127.0.0.1:8080", "ftp://a", "http://"] {
            assert!(LiveClient::new(base, None).is_err(), "{base}");
        }
    }
}
