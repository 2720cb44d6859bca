//! Responses, whose bodies are read within limits of size, time and speed.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, HeaderMap, HeaderName, TRANSFER_ENCODING};
use tokio::time::Instant;
use url::Url;

use crate::error::TransportError;

/// Maximum size of the body of a response without success, in bytes.
pub const MAX_ERROR_BYTES: u64 = 64 << 10;
/// Maximum time of reading such a body for its message.
const MAX_MESSAGE_TIME: Duration = Duration::from_secs(5);

/// Limits of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Maximum time until the head is there, with connecting and sending the request. Default: 30 s.
    pub head: Duration,
    /// Maximum time between two pieces of the body. Default: 20 s.
    pub idle: Duration,
    /// Maximum time of the whole response, from the request on. Default: 60 s. `None`: the caller has a limit of its own.
    pub total: Option<Duration>,
    /// Maximum size of the body, in bytes. Default: 1 MiB.
    pub max_bytes: u64,
    /// Minimum speed of the body, in bytes a second; 0 for none. Default: none.
    pub min_bytes_per_second: u64,
    /// The time over which the speed is measured. Default: 10 s.
    pub window: Duration,
}

impl Default for ResponseLimits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(30),
            idle: Duration::from_secs(20),
            total: Some(Duration::from_secs(60)),
            max_bytes: 1 << 20,
            min_bytes_per_second: 0,
            window: Duration::from_secs(10),
        }
    }
}

impl ResponseLimits {
    /// Returns the default limits with a maximum size and a maximum time.
    #[must_use]
    pub fn within(total: Duration, max_bytes: u64) -> Self {
        Self { head: total, idle: total, total: Some(total), max_bytes, ..Self::default() }
    }
}

/// A response. Its body is read piece by piece; dropping it closes the connection.
#[derive(Debug)]
pub struct Response {
    inner: reqwest::Response,
    url: Url,
    limits: ResponseLimits,
    deadline: Option<Instant>,
    received: u64,
    window_began: Instant,
    window_bytes: u64,
}

impl Response {
    /// Wraps a response to a request that was sent at `started`.
    pub(crate) fn new(
        inner: reqwest::Response,
        url: Url,
        mut limits: ResponseLimits,
        started: Instant,
    ) -> Result<Self, TransportError> {
        if let Some(coding) = coding(inner.headers()) {
            return Err(TransportError::Coded(coding));
        }
        if !inner.status().is_success() {
            limits.max_bytes = limits.max_bytes.min(MAX_ERROR_BYTES);
        }
        let deadline = limits.total.and_then(|total| started.checked_add(total));
        Ok(Self { inner, url, limits, deadline, received: 0, window_began: Instant::now(), window_bytes: 0 })
    }

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.inner.status()
    }

    /// Returns the headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.inner.headers()
    }

    /// Returns the headers, and leaves none.
    #[must_use]
    pub fn take_headers(&mut self) -> HeaderMap {
        std::mem::take(self.inner.headers_mut())
    }

    /// Returns the URL of the request.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the size of the rest of the body, if it is known.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        self.inner.content_length()
    }

    /// Lowers the maximum size of the body, in bytes.
    #[must_use]
    pub fn at_most(mut self, max_bytes: u64) -> Self {
        self.limits.max_bytes = self.limits.max_bytes.min(max_bytes);
        self
    }

    /// Waits for the next piece of the body. Returns `None` at its end.
    ///
    /// # Errors
    /// If a limit is exceeded, or the connection ends.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, TransportError> {
        let late = || TransportError::Late(self.limits.total.unwrap_or_default());
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // A body that never pauses reaches its deadline, too.
        if left.is_some_and(|left| left.is_zero()) {
            return Err(late());
        }
        let patience = left.map_or(self.limits.idle, |left| left.min(self.limits.idle));
        let chunk = tokio::time::timeout(patience, self.inner.chunk()).await;
        let chunk = match chunk {
            Err(_) if patience < self.limits.idle => return Err(late()),
            Err(_) => return Err(TransportError::Idle(self.limits.idle)),
            Ok(chunk) => chunk.map_err(|_| TransportError::Broken)?,
        };
        if let Some(chunk) = &chunk {
            self.count(chunk.len() as u64)?;
        }
        Ok(chunk)
    }

    /// Counts a piece against the limits of size and speed.
    fn count(&mut self, bytes: u64) -> Result<(), TransportError> {
        self.received = self.received.saturating_add(bytes);
        if self.received > self.limits.max_bytes {
            return Err(TransportError::TooLarge(self.limits.max_bytes));
        }
        self.window_bytes = self.window_bytes.saturating_add(bytes);
        let elapsed = self.window_began.elapsed();
        if self.limits.min_bytes_per_second > 0 && elapsed >= self.limits.window {
            let expected = u128::from(self.limits.min_bytes_per_second) * elapsed.as_millis() / 1000;
            if u128::from(self.window_bytes) < expected {
                return Err(TransportError::Slow(self.limits.min_bytes_per_second));
            }
            self.window_began = Instant::now();
            self.window_bytes = 0;
        }
        Ok(())
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// See [`Response::chunk`].
    pub async fn bytes(mut self) -> Result<Vec<u8>, TransportError> {
        if self.content_length().is_some_and(|bytes| bytes > self.limits.max_bytes) {
            return Err(TransportError::TooLarge(self.limits.max_bytes));
        }
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Reads the beginning of the body, for the message of an error: at most [`MAX_ERROR_BYTES`], and what comes within five
    /// seconds.
    pub async fn message(mut self) -> Vec<u8> {
        self.limits.max_bytes = u64::MAX;
        let max = usize::try_from(MAX_ERROR_BYTES).unwrap_or(usize::MAX);
        let mut body = Vec::new();
        let reading = async {
            while let Ok(Some(chunk)) = self.chunk().await {
                let left = max.saturating_sub(body.len());
                body.extend(chunk.iter().take(left));
                if chunk.len() >= left {
                    break;
                }
            }
        };
        // What came until then is better than nothing.
        let _late = tokio::time::timeout(MAX_MESSAGE_TIME, reading).await;
        body
    }
}

/// Returns the coding of a body that is not sent as it is. A body that is both coded and in chunks names the coding in
/// `transfer-encoding` (RFC 9112, section 6.1).
fn coding(headers: &HeaderMap) -> Option<String> {
    let coding = find_coding(headers, CONTENT_ENCODING, "identity")
        .or_else(|| find_coding(headers, TRANSFER_ENCODING, "chunked"))?;
    Some(coding.chars().filter(char::is_ascii_graphic).take(32).collect())
}

/// Returns the first coding in a header that changes the body.
fn find_coding(headers: &HeaderMap, name: HeaderName, plain: &str) -> Option<String> {
    let values = headers.get_all(name).into_iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let codings: Vec<String> = values
        .flat_map(|value| value.split(',').map(|coding| coding.trim().to_ascii_lowercase()).collect::<Vec<_>>())
        .collect();
    codings.into_iter().find(|coding| !coding.is_empty() && coding != plain)
}
