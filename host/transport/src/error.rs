//! Errors of requests.

use std::error::Error;
use std::time::Duration;

/// Errors of requests. None of them contains a URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The client cannot be set up.
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
    /// No connection can be made.
    #[error("{0}")]
    Unreachable(String),
    /// The connection ended before a response, or what came was none.
    #[error("{0}")]
    NoResponse(String),
    /// No connection was established in time.
    #[error("no connection was established in time")]
    ConnectTimeout,
    /// The head of the response did not come in time.
    #[error("no response began within {0:?}")]
    HeadTimeout(Duration),
    /// No piece of the body came in time.
    #[error("the response stopped for {0:?}")]
    Idle(Duration),
    /// The body comes too slowly.
    #[error("the response is slower than {0} bytes a second")]
    Slow(u64),
    /// The response took too long in all.
    #[error("the response was not complete within {0:?}")]
    Late(Duration),
    /// The connection ended in the middle of the response.
    #[error("the connection was lost during the response")]
    Broken,
    /// The body is too large.
    #[error("the response is larger than {0} bytes")]
    TooLarge(u64),
    /// An event of a stream is too large.
    #[error("an event is larger than {0} bytes")]
    EventTooLarge(usize),
    /// An event of a stream has too many values.
    #[error("an event has more than {0} values")]
    TooManyValues(usize),
    /// A stream has too many events.
    #[error("the response has more than {0} events")]
    TooManyEvents(u64),
    /// The body is compressed, or coded in another way.
    #[error("the response has the content coding `{0}`, which was not requested")]
    Coded(String),
}

impl TransportError {
    /// Returns whether the server took too long.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::HeadTimeout(_) | Self::Idle(_) | Self::Slow(_) | Self::Late(_))
    }

    /// Returns whether no response began.
    #[must_use]
    pub fn is_before_response(&self) -> bool {
        matches!(
            self,
            Self::Setup(_) | Self::Unreachable(_) | Self::NoResponse(_) | Self::ConnectTimeout | Self::HeadTimeout(_)
        )
    }
}

/// Returns the innermost message of an error; the outer ones repeat the URL.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
