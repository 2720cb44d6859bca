//! Bodies of answers, and what their failures mean.

use fumehood_transport::{Response, TransportError};

use crate::error::RegistryError;

/// Converts a failure to read an answer into the error about the request.
pub(crate) fn read_error(error: TransportError, host: &str, what: &str, received: u64, expected: u64) -> RegistryError {
    let host = host.to_owned();
    let what = what.to_owned();
    match error {
        TransportError::Idle(timeout) | TransportError::Late(timeout) => RegistryError::Timeout { host, what, timeout },
        TransportError::Slow(minimum) => RegistryError::Slow { host, what, minimum },
        TransportError::TooLarge(maximum) => RegistryError::TooLarge { host, what, maximum },
        TransportError::Broken => RegistryError::Truncated { host, what, received, expected },
        error => RegistryError::Malformed { host, what, reason: error.to_string() },
    }
}

/// Reads an answer of at most `max_bytes` into memory.
pub(crate) async fn read_bounded(
    response: Response,
    host: &str,
    what: &str,
    max_bytes: u64,
) -> Result<Vec<u8>, RegistryError> {
    let announced = response.content_length().unwrap_or_default();
    let mut response = response.at_most(max_bytes);
    let mut bytes = Vec::new();
    loop {
        let received = bytes.len() as u64;
        match response
            .chunk()
            .await
            .map_err(|error| read_error(error, host, what, received, announced.max(received)))?
        {
            None => return Ok(bytes),
            Some(chunk) => bytes.extend_from_slice(&chunk),
        }
    }
}
