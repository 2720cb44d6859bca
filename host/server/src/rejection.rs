//! Requests that are not admitted, and their responses: problem details (RFC 9457), whatever the protocol.

use std::time::Duration;

use http::header::{ALLOW, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use serde_json::json;

use crate::body::{ResponseBody, response};
use crate::token_verifier::TokenRefusal;

/// The media type of problem details.
pub const PROBLEM_TYPE: &str = "application/problem+json";

/// A rejected request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// The status of the response.
    pub status: StatusCode,
    /// The reason, for the one who sent the request.
    pub why: &'static str,
    /// The time after which the same request may be admitted.
    pub retry_after: Option<Duration>,
    /// The methods of the path, for `Allow`. A rejection with the status 405 has them (RFC 9110, section 15.5.6).
    pub allow: Option<&'static str>,
    /// The access token that was refused, for `WWW-Authenticate`.
    pub(crate) refusal: Option<TokenRefusal>,
}

impl Rejection {
    /// Creates a rejection.
    #[must_use]
    pub const fn new(status: StatusCode, why: &'static str) -> Self {
        Self { status, why, retry_after: None, allow: None, refusal: None }
    }

    /// Creates the rejection of a tenant that has used up a limit of its own.
    #[must_use]
    pub const fn too_many(why: &'static str, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(StatusCode::TOO_MANY_REQUESTS, why) }
    }

    /// Creates the rejection of a method that the path does not have. `allow` lists those that it has, such as `GET, HEAD`.
    #[must_use]
    pub const fn method_not_allowed(allow: &'static str, why: &'static str) -> Self {
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, why) }
    }

    /// Creates the rejection of a server that has no room.
    #[must_use]
    pub const fn overloaded() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "this server is full; try again in a second")
    }

    /// Creates the rejection of a server that does not take requests yet.
    pub(crate) const fn loading() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "this server is still loading its tools; try again in a second")
    }

    /// Creates the rejection of a server that ends.
    pub(crate) const fn draining() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "this server is shutting down; try again in a second, or use another server",
        )
    }

    /// Creates the rejection of an access token.
    pub(crate) fn from_token(refusal: TokenRefusal) -> Self {
        let (status, why) = match refusal {
            TokenRefusal::Invalid(why) => (StatusCode::UNAUTHORIZED, why),
            TokenRefusal::InsufficientScope => (
                StatusCode::FORBIDDEN,
                "the token lacks a scope that this server requires; request a token with this scope from its issuer",
            ),
            TokenRefusal::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "cannot fetch the keys of the token's issuer; try again later")
            }
        };
        Self { refusal: Some(refusal), ..Self::new(status, why) }
    }

    pub(crate) fn to_response(self) -> Response<ResponseBody> {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let status = self.status.as_u16();
        let mut problem = json!({ "type": "about:blank", "title": title, "status": status, "detail": self.why });
        if let (Some(after), Some(members)) = (self.retry_after, problem.as_object_mut()) {
            let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            members.insert("retry_after_ms".to_owned(), millis.into());
        }
        let mut response = response(self.status, PROBLEM_TYPE, problem.to_string());
        if let Some(after) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, retry_after_header(after));
        }
        if let Some(allow) = self.allow {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}

/// Returns the value of `Retry-After`: whole seconds, at least one, and not earlier than this (RFC 9110, section 10.2.3).
#[must_use]
pub fn retry_after_header(after: Duration) -> HeaderValue {
    HeaderValue::from(after.as_secs_f64().ceil().max(1.0) as u64)
}
