//! Errors of an exchange, with a message for the operator and an error code for the guest.

use std::io;

use wasmtime_wasi_http::Error;

#[cfg(feature = "tls")]
use crate::network::TlsError;

#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    #[error("the name was not found")]
    NoSuchName(#[source] io::Error),
    #[error("looking up the name took too long")]
    SlowName,
    #[error("the name has no addresses")]
    NoAddress,
    #[error("its address is not on the public internet")]
    Prohibited,
    #[error("the connection failed")]
    Connect(#[source] io::Error),
    #[error("connecting took too long")]
    SlowConnect,
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[cfg(feature = "tls")]
    #[error("the TLS handshake took too long")]
    SlowTls,
    #[cfg(not(feature = "tls"))]
    #[error("this build of the host has no TLS")]
    NoTls,
    #[error("the response did not start in time")]
    SlowResponse,
    #[error("the response stopped before its end")]
    SlowBody,
    #[error("the request is not valid HTTP")]
    Request,
    #[error("the call sent more than it may")]
    TooMuchOut,
    #[error("the call received more than it may")]
    TooMuchIn,
    #[error("the response's headers are too large")]
    TooMuchHead,
    #[error("the connection was lost during the response")]
    Incomplete,
    #[error("the response is not HTTP")]
    NotHttp,
    #[error("all calls of this host together have {0} running requests, the maximum")]
    Busy(u32),
    #[error("the connection was lost")]
    Broken,
}

impl ExchangeError {
    /// Classifies an error of the HTTP library.
    pub(super) fn from_hyper(error: &hyper::Error) -> Self {
        match error {
            error if error.is_parse_too_large() => Self::TooMuchHead,
            error if error.is_incomplete_message() || is_premature_end(error) => Self::Incomplete,
            error if error.is_parse() => Self::NotHttp,
            _ => Self::Broken,
        }
    }

    /// Converts into the error code that the guest receives: the kind of failure, without details that only the host
    /// knows.
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::NoSuchName(_) | Self::NoAddress => Error::DnsError { rcode: None, info_code: None },
            Self::SlowName => Error::DnsTimeout,
            Self::Prohibited => Error::DestinationIpProhibited,
            Self::Connect(_) => Error::ConnectionRefused,
            Self::SlowConnect => Error::ConnectionTimeout,
            #[cfg(feature = "tls")]
            Self::Tls(TlsError::NoTrust(_)) => Error::ConfigurationError,
            #[cfg(feature = "tls")]
            Self::Tls(TlsError::Certificate) => Error::TlsCertificateError,
            #[cfg(feature = "tls")]
            Self::Tls(TlsError::Handshake) => Error::TlsProtocolError,
            #[cfg(feature = "tls")]
            Self::SlowTls => Error::ConnectionTimeout,
            #[cfg(not(feature = "tls"))]
            Self::NoTls => Error::ConfigurationError,
            Self::SlowResponse => Error::HttpResponseTimeout,
            Self::SlowBody => Error::ConnectionReadTimeout,
            Self::Request => Error::HttpRequestUriInvalid,
            Self::TooMuchOut => Error::HttpRequestBodySize(None),
            Self::TooMuchIn => Error::HttpResponseBodySize(None),
            Self::TooMuchHead => Error::HttpResponseHeaderSectionSize(None),
            Self::Incomplete => Error::HttpResponseIncomplete,
            Self::NotHttp => Error::HttpProtocolError,
            Self::Busy(_) => Error::ConnectionLimitReached,
            Self::Broken => Error::ConnectionTerminated,
        }
    }
}

/// Returns whether the connection ended before its message did, for which the library has two errors.
fn is_premature_end(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::UnexpectedEof)
}
