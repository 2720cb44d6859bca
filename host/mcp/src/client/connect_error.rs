//! Errors of connecting to a server, worded for the operator who configured it.

use std::io;
use std::time::Duration;

use fumehood_core::text::sanitize::printable;
use fumehood_transport::{TransportError, Url};
use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError, StreamableHttpError};

/// Maximum length of the scopes that a server asks for, in bytes.
const MAX_SCOPE_BYTES: usize = 256;

/// Errors of connecting to a server and listing its tools.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A missing or unusable program.
    #[error("cannot start `{program}`: {why}")]
    NoProgram {
        /// The program, as it was configured.
        program: String,
        /// The problem, and what to do.
        why: &'static str,
    },
    /// A program that could not be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program, as it was configured.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// An unreachable address.
    #[error("cannot reach {address}: {why}")]
    Unreachable {
        /// The origin of the URL, without the parts that may be secret.
        address: String,
        /// The error of the system.
        why: String,
    },
    /// A server at a URL that accepts only those who are logged in, and perhaps with more rights.
    #[error("{address} requires a login{hint}")]
    LoginRequired {
        /// The origin of the URL, without the parts that may be secret.
        address: String,
        /// The way to log in, as a suffix of the message.
        hint: String,
    },
    /// A failure to create the HTTP client.
    #[error("cannot create an HTTP client")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A failed handshake: the server does not speak MCP, or no revision that is supported.
    #[error("the server did not complete the MCP handshake{stderr}")]
    Handshake {
        /// The end of its standard error, as a suffix of the message.
        stderr: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A failed `tools/list`.
    #[error("the server did not list its tools")]
    List(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Far more messages or bytes than requested.
    #[error("the server sent far too much data and was disconnected")]
    Flooded,
    /// A timeout while starting and listing tools.
    #[error("the server did not start and list its tools within {0:?}, its `start_timeout`")]
    Late(Duration),
    /// A recent failure: the time until the next attempt.
    #[error("the server failed recently; retrying in {0:?}")]
    TooEarly(Duration),
}

/// Creates the error of a failed handshake with a program, with the end of its standard error.
pub(super) fn from_handshake(error: ClientInitializeError, stderr_tail: &str) -> ConnectError {
    let stderr = match printable(stderr_tail) {
        text if text.is_empty() => String::new(),
        text => format!("; stderr: {text}"),
    };
    ConnectError::Handshake { stderr, source: Box::new(error) }
}

/// Creates the error of a failed handshake with a server at a URL. `login_hint` says how to log in, if that is possible.
pub(super) fn from_address(error: ClientInitializeError, url: &str, login_hint: Option<&str>) -> ConnectError {
    if let Some(hint) = login_hint.filter(|_| error.auth_challenge().is_some()) {
        let hint = if hint.is_empty() { String::new() } else { format!(": {hint}") };
        return ConnectError::LoginRequired { address: origin(url), hint };
    }
    match connect_error_cause(&error) {
        Some(why) => ConnectError::Unreachable { address: origin(url), why },
        None => from_handshake(error, ""),
    }
}

/// A challenge with which a server refused a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// The status 401, or 403 without a usable scope.
    Login,
    /// The status 403: the scopes that the request needs, separated by spaces.
    Scope(String),
}

/// Returns the challenge with which a server refused a request; `None` if it failed for another reason.
pub(super) fn challenge_of(error: &DynamicTransportError) -> Option<Challenge> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error.error.as_ref());
    while let Some(error) = next {
        if error.is::<AuthRequiredError>() {
            return Some(Challenge::Login);
        }
        if let Some(error) = error.downcast_ref::<InsufficientScopeError>() {
            let scope = error.get_required_scope().filter(|scope| is_scope(scope));
            return Some(scope.map_or(Challenge::Login, |scope| Challenge::Scope(scope.to_owned())));
        }
        next = error.source();
    }
    None
}

/// Returns whether a request was not accepted, so that nothing of it ran: there was no connection, or the server is too busy.
pub(super) fn is_refused(error: &DynamicTransportError) -> bool {
    if let Some(error) = error.error.downcast_ref::<io::Error>() {
        // Nobody reads the other end of the pipe.
        return matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected);
    }
    match error.error.downcast_ref::<StreamableHttpError<TransportError>>() {
        Some(StreamableHttpError::Client(error)) => {
            matches!(error, TransportError::Unreachable(_) | TransportError::ConnectTimeout | TransportError::Setup(_))
        }
        Some(StreamableHttpError::HttpStatus(error)) => matches!(error.status, 429 | 503),
        Some(StreamableHttpError::SessionExpired) => true,
        _ => false,
    }
}

/// Returns whether a text is a list of scopes (RFC 6749, section 3.3), and not a long one.
fn is_scope(text: &str) -> bool {
    let is_allowed = |c: char| matches!(c, ' ' | '!' | '#'..='[' | ']'..='~');
    !text.is_empty() && text.len() <= MAX_SCOPE_BYTES && text.chars().all(is_allowed)
}

/// Returns the cause if no network connection could be made.
fn connect_error_cause(error: &ClientInitializeError) -> Option<String> {
    let error = match error {
        ClientInitializeError::TransportError { error, .. } => error,
        ClientInitializeError::LegacyFallbackFailed { discover, fallback } => {
            return connect_error_cause(fallback).or_else(|| connect_error_cause(discover));
        }
        _ => return None,
    };
    let StreamableHttpError::Client(error) = error.error.downcast_ref::<StreamableHttpError<TransportError>>()? else {
        return None;
    };
    if !matches!(error, TransportError::Unreachable(_) | TransportError::ConnectTimeout) {
        return None;
    }
    // The number of the system's error is of no use to an operator.
    let why = error.to_string();
    Some(why.split(" (os error").next().unwrap_or(&why).to_lowercase())
}

/// Returns scheme, host and port of a URL. The rest may contain a secret.
fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "the address".to_owned(), |url| url.origin().ascii_serialization())
}
