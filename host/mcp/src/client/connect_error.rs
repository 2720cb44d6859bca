//! Errors of connecting to a server, worded for the operator who configured it.

use std::io;
use std::time::Duration;

use fumehood_core::text::sanitize::printable;
use fumehood_transport::{TransportError, Url};
use http::StatusCode;
use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError, StreamableHttpError};

/// Maximum length of the scopes that a server asks for, in bytes.
const MAX_SCOPE_BYTES: usize = 256;

/// Maximum length of a server's own text, in characters.
const MAX_QUOTED_CHARS: usize = 300;

/// The advice for a URL where something other than an MCP server answers.
const CHECK_PATH: &str = "check the path of the URL, which is often /mcp";

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
    #[error("cannot reach {address}: {why}; check the URL, and that the server runs")]
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
    /// A server at a URL that accepts only requests with a bearer token.
    #[error("{address} {}", token_problem(*.has_token))]
    Unauthorized {
        /// The origin of the URL, without the parts that may be secret.
        address: String,
        /// True if the requests had a token.
        has_token: bool,
    },
    /// A server at a URL that refused the requests, or does not speak MCP.
    #[error("{address} {why}")]
    Answer {
        /// The origin of the URL, without the parts that may be secret.
        address: String,
        /// What it did, and what to do.
        why: String,
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
pub(super) fn from_address(
    error: ClientInitializeError,
    url: &str,
    login_hint: Option<&str>,
    has_token: bool,
) -> ConnectError {
    let is_unauthorized = http_error(&error).is_some_and(is_unauthorized);
    match login_hint {
        // A login may also give more rights.
        Some(hint) if is_unauthorized || error.auth_challenge().is_some() => {
            let hint = if hint.is_empty() { String::new() } else { format!(": {hint}") };
            return ConnectError::LoginRequired { address: origin(url), hint };
        }
        None if is_unauthorized => return ConnectError::Unauthorized { address: origin(url), has_token },
        _ => {}
    }
    match connect_error_cause(&error) {
        Some(why) => ConnectError::Unreachable { address: origin(url), why },
        None => from_handshake(error, ""),
    }
}

/// Explains a failed handshake with a server at a URL, once no other handshake is tried.
pub(super) fn explain(error: ConnectError, url: &str) -> ConnectError {
    let ConnectError::Handshake { source, .. } = &error else { return error };
    let cause = source.downcast_ref().and_then(http_error);
    match cause.and_then(describe) {
        Some(why) => ConnectError::Answer { address: origin(url), why },
        None => error,
    }
}

/// Describes the response with which a server at a URL refused a request, and says what to do; `None` if it failed for
/// another reason.
pub(super) fn describe_refusal(error: &DynamicTransportError) -> Option<String> {
    describe(error.error.downcast_ref()?)
}

fn token_problem(has_token: bool) -> &'static str {
    if has_token {
        "does not accept the bearer token; check that it is the current one"
    } else {
        "requires a bearer token"
    }
}

type HttpError = StreamableHttpError<TransportError>;

/// Returns the error of the HTTP client that ended a handshake.
fn http_error(error: &ClientInitializeError) -> Option<&HttpError> {
    match error {
        ClientInitializeError::TransportError { error, .. } => error.error.downcast_ref(),
        ClientInitializeError::LegacyFallbackFailed { discover, fallback } => {
            http_error(fallback).or_else(|| http_error(discover))
        }
        _ => None,
    }
}

/// Returns whether a server refused a request because of its token, also if it does not say how to get one.
fn is_unauthorized(error: &HttpError) -> bool {
    match error {
        StreamableHttpError::AuthRequired(_) => true,
        StreamableHttpError::UnexpectedServerResponse(text) => refused_status(text) == Some(StatusCode::UNAUTHORIZED),
        _ => false,
    }
}

/// Returns the status of a refused request, which the client writes at the beginning of its error.
fn refused_status(text: &str) -> Option<StatusCode> {
    text.strip_prefix("HTTP ")?.get(..3)?.parse().ok()
}

fn describe(error: &HttpError) -> Option<String> {
    match error {
        StreamableHttpError::HttpStatus(error) => Some(describe_status(StatusCode::from_u16(error.status).ok()?, "")),
        StreamableHttpError::UnexpectedServerResponse(text) => match refused_status(text) {
            Some(status) if !status.is_redirection() => {
                let said = text.split_once(": ").map(|(_, said)| said).unwrap_or_default();
                Some(describe_status(status, said))
            }
            _ => Some(format!("did not answer with MCP: {}", quote(text))),
        },
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().map_or_else(|| "data without a type".to_owned(), quote);
            Some(format!("did not answer with MCP, but with {kind}; {CHECK_PATH}"))
        }
        StreamableHttpError::AuthRequired(_) => Some(describe_status(StatusCode::UNAUTHORIZED, "")),
        StreamableHttpError::InsufficientScope(_) => Some(describe_status(StatusCode::FORBIDDEN, "")),
        _ => None,
    }
}

fn describe_status(status: StatusCode, said: &str) -> String {
    let (what, advice) = match status.as_u16() {
        401 => ("requires a valid bearer token", "check the token"),
        403 => ("refused the request", "check the token and its rights"),
        404 | 405 | 410 => ("has no MCP server at this path", CHECK_PATH),
        429 | 503 => ("is too busy or not ready", "try again later"),
        500.. => ("failed", "look into its log"),
        _ => ("refused the request", "check the URL and the headers"),
    };
    // A page for browsers says nothing more.
    let said = if said.trim_start().starts_with('<') { String::new() } else { quote(said) };
    let said = if said.is_empty() { said } else { format!(": {said}") };
    format!("{what} (HTTP {status}{said}); {advice}")
}

/// Returns a text of a server on one line, and not a long one.
fn quote(text: &str) -> String {
    printable(text.trim()).chars().take(MAX_QUOTED_CHARS).collect()
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
