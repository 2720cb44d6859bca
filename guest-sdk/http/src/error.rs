//! Errors of a request.

use std::error::Error;
use std::fmt;

use fumehood_guest::ToolError;

/// An error of a request, which then has no response.
///
/// `?` converts it to a [`ToolError`] of the matching kind, with a message that a model can act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The request is not allowed by the host.
    Denied,
    /// The call has reached its limit on requests, or on bytes sent or received.
    UsedUp,
    /// The request is invalid, with the reason.
    Invalid(String),
    /// The host name does not exist.
    NoSuchHost,
    /// The server did not respond in time.
    Timeout,
    /// The connection could not be encrypted, or the server's certificate is not trusted.
    Tls,
    /// The connection failed, or broke.
    Connection,
    /// The response is not HTTP, or is too large.
    Response,
}

impl fmt::Display for RequestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Denied => "this request is not allowed; the operator can grant it",
            Self::UsedUp => "this call may make, send or receive no more; ask for less at once",
            Self::Invalid(why) => return write!(formatter, "the request cannot be sent: {why}"),
            Self::NoSuchHost => "unknown host; check the address",
            Self::Timeout => "the server did not answer in time; try again later",
            Self::Tls => "the connection is not secure: the server's certificate is not trusted, or encryption failed",
            Self::Connection => "the server cannot be reached, or the connection broke; try again later",
            Self::Response => "the server's response is broken or too large",
        })
    }
}

impl Error for RequestError {}

impl From<RequestError> for ToolError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Denied => Self::denied(error),
            RequestError::Invalid(_) | RequestError::NoSuchHost => Self::invalid_arguments(error),
            RequestError::Timeout | RequestError::Connection => Self::unavailable(error),
            RequestError::UsedUp | RequestError::Tls | RequestError::Response => Self::failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use fumehood_guest::FailureKind;

    use super::*;

    #[test]
    fn errors_map_to_failure_kinds() {
        let kind = |error: RequestError| ToolError::from(error).kind();
        assert_eq!(kind(RequestError::Denied), FailureKind::Denied);
        assert_eq!(kind(RequestError::Invalid(String::new())), FailureKind::InvalidArguments);
        assert_eq!(kind(RequestError::NoSuchHost), FailureKind::InvalidArguments);
        assert_eq!(kind(RequestError::Timeout), FailureKind::Unavailable);
        assert_eq!(kind(RequestError::Connection), FailureKind::Unavailable);
        for error in [RequestError::UsedUp, RequestError::Tls, RequestError::Response] {
            assert_eq!(kind(error), FailureKind::Failed);
        }
    }
}
