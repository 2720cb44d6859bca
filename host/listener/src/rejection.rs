//! Requests that are not admitted.

use http::StatusCode;

/// A rejected request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejection {
    /// The status of the response.
    pub status: StatusCode,
    /// The reason, for the one who sent the request.
    pub why: &'static str,
}

impl Rejection {
    /// Creates a rejection.
    #[must_use]
    pub const fn new(status: StatusCode, why: &'static str) -> Self {
        Self { status, why }
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
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "this server is ending; try again in a second, or ask another one")
    }
}
