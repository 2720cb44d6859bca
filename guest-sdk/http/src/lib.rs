//! HTTP requests from a tool, one at a time, through `wasi:http`.
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
//! let told = testing::answering(|_| Ok(Response::new(b"Deny by default.".to_vec())), motto);
//! assert_eq!(told.unwrap(), "Deny by default.");
//! ```
//!
//! Which requests may be made is not the tool's to decide. One that was not granted is [`RequestError::Denied`].

mod error;
mod patience;
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

/// As much of a response's body as was wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// The bytes, from the first on.
    pub bytes: Vec<u8>,
    /// Whether that is all of it.
    pub complete: bool,
}

/// Sends a request and reads its response up to `most` bytes of the body. The address is absolute. Redirects are not
/// followed. It gives up a little before the call's own time is over, so that the tool can still say why.
///
/// # Errors
///
/// If there is no response. One that reports an error, such as 404, is a response.
pub fn send(request: Request<Vec<u8>>, most: usize) -> Result<Response<Body>, RequestError> {
    let uri = request.uri();
    let scheme = uri.scheme_str().unwrap_or_default();
    if !matches!(scheme, "http" | "https") || uri.authority().is_none() {
        return Err(RequestError::Invalid(format!("`{uri}` is not an absolute http or https address")));
    }
    host::send(request, most, patience::left()?)
}
