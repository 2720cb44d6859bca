//! Why a server cannot be used, in words for whoever configured it.

use std::time::Duration;

use fumehood_core::sanitize::printable;
use reqwest::Url;
use rmcp::service::ClientInitializeError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::{MAX_LISTED_TOOLS, MAX_PAGES};

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no such program.
    #[error("cannot start `{program}`: {why}")]
    NoProgram {
        /// The program, as it was named.
        program: String,
        /// What is wrong with it, and what to do.
        why: &'static str,
    },
    /// The program cannot be started.
    #[error("cannot start `{program}`")]
    Start {
        /// Which program.
        program: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// Nothing answers at the address.
    #[error("cannot reach {address}: {why}")]
    Unreachable {
        /// The address, without what may be secret in it.
        address: String,
        /// What the system says.
        why: String,
    },
    /// There can be no HTTP client.
    #[error("cannot make an HTTP client")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It does not speak MCP, or none that is known here.
    #[error("the server did not begin as MCP servers do{said}")]
    Handshake {
        /// Its last words, in a form to append.
        said: String,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It cannot say which tools it has.
    #[error("the server did not list its tools")]
    List(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It lists more than anybody could use.
    #[error("the server lists more than {MAX_LISTED_TOOLS} tools, or on more than {MAX_PAGES} pages")]
    Endless,
    /// It said far more than it was asked for.
    #[error("the server said far more than it was asked for and was cut off")]
    Flooded,
    /// It took too long to start and to list its tools.
    #[error("the server did not start and list its tools within {0:?}, its `start_timeout`")]
    Late(Duration),
    /// It failed a moment ago.
    #[error("the server failed a moment ago; it is tried again in {0:?}")]
    TooEarly(Duration),
}

/// The failure of a handshake with a program, and its last words.
pub(super) fn from_handshake(error: ClientInitializeError, stderr_tail: &str) -> ConnectError {
    let said = match printable(stderr_tail) {
        text if text.is_empty() => String::new(),
        text => format!("; it said: {text}"),
    };
    ConnectError::Handshake { said, source: Box::new(error) }
}

/// The failure of a handshake with a server at an address.
pub(super) fn from_address(error: ClientInitializeError, url: &str) -> ConnectError {
    match connect_error_cause(&error) {
        Some(why) => ConnectError::Unreachable { address: origin(url), why },
        None => from_handshake(error, ""),
    }
}

/// Why no connection came about, if that is what failed.
fn connect_error_cause(error: &ClientInitializeError) -> Option<String> {
    let error = match error {
        ClientInitializeError::TransportError { error, .. } => error,
        ClientInitializeError::LegacyFallbackFailed { discover, fallback } => {
            return connect_error_cause(fallback).or_else(|| connect_error_cause(discover));
        }
        _ => return None,
    };
    let StreamableHttpError::Client(error) = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>()? else {
        return None;
    };
    if !error.is_connect() {
        return None;
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    // The number of the system's error says nothing to a person.
    let why = cause.to_string();
    Some(why.split(" (os error").next().unwrap_or(&why).to_lowercase())
}

/// Scheme, host and port: what follows may hold a secret.
fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "the address".to_owned(), |url| url.origin().ascii_serialization())
}
