//! Bodies of answers, read within limits of size, speed and time.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Response;

use super::config::HttpLimits;
use crate::error::RegistryError;

/// The pace of an answer: the time that each piece may take, and the minimum speed.
#[derive(Debug)]
pub(crate) struct Pace {
    idle: Duration,
    window: Duration,
    min_bytes_per_second: u64,
    window_began: Instant,
    window_bytes: u64,
}

/// A reason why reading an answer ended.
#[derive(Debug)]
pub(crate) enum PaceError {
    /// No piece came within the time for one.
    Idle(Duration),
    /// The pieces come too slowly.
    Slow(u64),
    /// The connection ended.
    Broken,
}

impl Pace {
    pub(crate) fn new(limits: &HttpLimits) -> Self {
        Self {
            idle: limits.idle,
            window: limits.window,
            min_bytes_per_second: limits.min_bytes_per_second,
            window_began: Instant::now(),
            window_bytes: 0,
        }
    }

    /// Waits for the next piece. Returns `None` at the end.
    pub(crate) async fn next(&mut self, response: &mut Response) -> Result<Option<Bytes>, PaceError> {
        let chunk = tokio::time::timeout(self.idle, response.chunk()).await;
        let chunk = chunk.map_err(|_| PaceError::Idle(self.idle))?.map_err(|_| PaceError::Broken)?;
        if let Some(chunk) = &chunk {
            self.window_bytes += chunk.len() as u64;
            let elapsed = self.window_began.elapsed();
            if elapsed >= self.window {
                let expected = u128::from(self.min_bytes_per_second) * elapsed.as_millis() / 1000;
                if u128::from(self.window_bytes) < expected {
                    return Err(PaceError::Slow(self.min_bytes_per_second));
                }
                self.window_began = Instant::now();
                self.window_bytes = 0;
            }
        }
        Ok(chunk)
    }
}

impl PaceError {
    /// Converts into the error about a request.
    pub(crate) fn describe(self, host: &str, what: &str, received: u64, expected: u64) -> RegistryError {
        let (host, what) = (host.to_owned(), what.to_owned());
        match self {
            Self::Idle(timeout) => RegistryError::Timeout { host, what, timeout },
            Self::Slow(minimum) => RegistryError::Slow { host, what, minimum },
            Self::Broken => RegistryError::Truncated { host, what, received, expected },
        }
    }
}

/// Reads an answer of at most `max_bytes` into memory.
pub(crate) async fn read_bounded(
    mut response: Response,
    host: &str,
    what: &str,
    max_bytes: u64,
    limits: &HttpLimits,
) -> Result<Vec<u8>, RegistryError> {
    let too_large = || RegistryError::TooLarge { host: host.to_owned(), what: what.to_owned(), maximum: max_bytes };
    let announced = response.content_length();
    if announced.is_some_and(|bytes| bytes > max_bytes) {
        return Err(too_large());
    }
    let mut pace = Pace::new(limits);
    let mut bytes = Vec::new();
    loop {
        let received = bytes.len() as u64;
        let chunk = pace.next(&mut response).await;
        match chunk.map_err(|error| error.describe(host, what, received, announced.unwrap_or(received)))? {
            None => return Ok(bytes),
            Some(chunk) if received + chunk.len() as u64 > max_bytes => return Err(too_large()),
            Some(chunk) => bytes.extend_from_slice(&chunk),
        }
    }
}
