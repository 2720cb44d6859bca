//! Why there is no response.

use std::error::Error;
use std::fmt;

use fumehood_guest::ToolError;

/// Why there is no response.
///
/// `?` turns it into a [`ToolError`] of the kind that fits, in words that a model can act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The host does not allow this request.
    Denied,
    /// The call has made, sent or received as much as it may.
    UsedUp,
    /// The request is none that could be sent. Why.
    Invalid(String),
    /// There is no such host.
    NoSuchHost,
    /// The server did not answer in time.
    Timeout,
    /// The connection could not be encrypted, or the server's certificate is not to be trusted.
    Tls,
    /// No connection could be made, or it broke.
    Connection,
    /// The response is not HTTP, or more than can be taken.
    Response,
}

impl fmt::Display for RequestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Denied => {
                "this request is not allowed; whoever runs this tool can grant it, so ask them or do without"
            }
            Self::UsedUp => "this call may make, send or receive no more; ask for less at once",
            Self::Invalid(why) => return write!(formatter, "the request cannot be sent: {why}"),
            Self::NoSuchHost => "there is no host of that name; check the address",
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
    fn every_error_has_the_kind_that_fits() {
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
