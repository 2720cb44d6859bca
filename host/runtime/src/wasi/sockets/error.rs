//! Errors of sockets, without details that only the host knows.

use std::io;

use serde::{Deserialize, Serialize};
use wasmtime_wasi::p2::bindings::sockets::network::ErrorCode;

/// The error that a guest gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("it was not granted")]
    Denied,
    #[error("the call used up its allowance, or all calls of this host have too many connections")]
    Exhausted,
    #[error("the name was not found")]
    NoSuchName,
    #[error("looking up the name took too long")]
    SlowName,
    #[error("the connection was refused")]
    Refused,
    #[error("connecting took too long")]
    SlowConnect,
    #[error("the host is unreachable")]
    Unreachable,
    #[error("the connection was lost")]
    Broken,
}

impl SocketError {
    /// Classifies an error of connecting.
    pub(super) fn from_connect(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut => Self::SlowConnect,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::Unreachable,
            _ => Self::Broken,
        }
    }

    /// Returns the error code of a connection.
    pub(super) fn to_code(self) -> ErrorCode {
        match self {
            Self::Denied => ErrorCode::AccessDenied,
            Self::Exhausted => ErrorCode::NewSocketLimit,
            Self::NoSuchName => ErrorCode::NameUnresolvable,
            Self::SlowName => ErrorCode::TemporaryResolverFailure,
            Self::Refused => ErrorCode::ConnectionRefused,
            Self::SlowConnect => ErrorCode::Timeout,
            Self::Unreachable => ErrorCode::RemoteUnreachable,
            Self::Broken => ErrorCode::ConnectionReset,
        }
    }

    /// Returns the error code of a lookup. A name that may not be looked up can never be resolved.
    pub(super) fn to_lookup_code(self) -> ErrorCode {
        match self {
            Self::Denied => ErrorCode::PermanentResolverFailure,
            Self::Exhausted => ErrorCode::TemporaryResolverFailure,
            other => other.to_code(),
        }
    }
}
