//! Blocking HTTP requests from a tool, through `wasi:http`.
//!
//! ```
//! use fumehood_guest::ToolError;
//! use fumehood_guest_http::{Request, Response, send, testing};
//!
//! fn motto() -> Result<String, ToolError> {
//!     let request = Request::get("https://example.com/motto").body(Vec::new()).map_err(ToolError::failed)?;
//!     let response = send(request, 1024)?;
//!     Ok(String::from_utf8_lossy(&response.body().bytes).into_owned())
//! }
//!
//! let motto = testing::answering(|_| Ok(Response::new(b"Deny by default.".to_vec())), motto);
//! assert_eq!(motto.unwrap(), "Deny by default.");
//! ```
//!
//! The operator grants the requests that a tool may send. Any other fails with [`RequestError::Denied`].

use std::time::Duration;

use fumehood_guest::context;

mod error;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
#[cfg(target_arch = "wasm32")]
mod wasi;

#[cfg(not(target_arch = "wasm32"))]
use testing as host;
#[cfg(target_arch = "wasm32")]
use wasi as host;

pub use error::RequestError;
pub use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};

/// Time that is reserved for the tool to report what went wrong.
const RESERVED_TIME: Duration = Duration::from_millis(200);

/// The body of a response, up to the size limit of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// The bytes, from the first on.
    pub bytes: Vec<u8>,
    /// True if these are all bytes of the body.
    pub complete: bool,
}

/// Sends a request, and reads its response with at most `max_bytes` bytes of the body. The address must be absolute.
/// Redirects are not followed. The request times out 200 ms before the call's deadline, so that the tool can still
/// report the error.
///
/// # Errors
///
/// If there is no response. A response with an error status, such as 404, is not an error.
pub fn send(request: Request<Vec<u8>>, max_bytes: usize) -> Result<Response<Body>, RequestError> {
    let uri = request.uri();
    let scheme = uri.scheme_str().unwrap_or_default();
    if !matches!(scheme, "http" | "https") || uri.authority().is_none() {
        return Err(RequestError::Invalid(format!("`{uri}` is not an absolute http or https address")));
    }
    host::send(request, max_bytes, request_timeout()?)
}

/// Returns the time that the call has left for a request.
fn request_timeout() -> Result<Duration, RequestError> {
    context::remaining().checked_sub(RESERVED_TIME).filter(|left| !left.is_zero()).ok_or(RequestError::Timeout)
}

#[cfg(test)]
mod tests {
    use fumehood_guest::testing::Call;

    use super::*;

    #[test]
    fn request_times_out_before_the_call() {
        let timeout = |millis| Call::new().remaining(Duration::from_millis(millis)).run(request_timeout).returned;
        assert_eq!(timeout(100), Err(RequestError::Timeout));
        assert_eq!(timeout(200), Err(RequestError::Timeout));
        assert_eq!(timeout(1200), Ok(Duration::from_secs(1)));
    }
}
