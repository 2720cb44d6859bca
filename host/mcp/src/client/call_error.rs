//! The errors of calls that did not reach a server, or for which its login was not enough.

use fumehood_core::call::ErrorDetails;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::name::Namespace;
use rmcp::model::ErrorData;
use rmcp::service::ServiceError;

use super::connect_error::{self, Challenge, ConnectError};
use super::metadata::MAX_ERROR_DATA_BYTES;

/// The advice for a call that may have had its effect.
const MAY_HAVE_RUN: &str = "check its effects before you call again";

/// Maximum length of a server's own text in an error, in characters.
pub(super) const MAX_QUOTED_CHARS: usize = 1000;

/// Creates the error of a call for which the login is not enough. `hint` says how to log in, if that is possible.
pub(super) fn from_challenge(server: &Namespace, challenge: &Challenge, hint: Option<&str>) -> CallError {
    let (why, first) = match challenge {
        Challenge::Login => (format!("the server `{server}` does not accept this login for the call"), ""),
        Challenge::Scope(scope) => {
            let why = format!("the server `{server}` requires a login with the scope `{scope}` for this call");
            (why, "add it to `login.scopes`, approve it, and ")
        }
    };
    let failure = CallError::new(ErrorKind::Unavailable, why);
    match hint.filter(|hint| !hint.is_empty()) {
        Some(hint) => failure.with_hint(format!("{first}{hint}")),
        None => failure,
    }
}

/// Creates the error of a call whose answer cannot be read.
pub(super) fn unreadable(server: &Namespace, why: &str) -> CallError {
    let why: String = why.chars().take(MAX_QUOTED_CHARS).collect();
    CallError::new(ErrorKind::BadResult, format!("malformed answer of the server `{server}`: {why}"))
        .with_hint(MAY_HAVE_RUN)
}

/// Creates the error of a call whose server asked for something that it does not get.
pub(super) fn from_refused_input(why: String) -> CallError {
    CallError::new(ErrorKind::ToolFailed, why)
}

/// Creates the error of a call that the server refused. Its data are for clients of MCP.
pub(super) fn from_refusal(server: &Namespace, error: ErrorData) -> CallError {
    let message: String = error.message.chars().take(MAX_QUOTED_CHARS).collect();
    let data = error.data.filter(|data| data.to_string().len() <= MAX_ERROR_DATA_BYTES).map(Untrusted::new);
    CallError::new(ErrorKind::ToolFailed, format!("the server `{server}` refused the call: {message}"))
        .with_details(ErrorDetails { code: Some(error.code.0.into()), data, ..ErrorDetails::default() })
}

/// Creates the error of a call during which the connection ended. `suffix` is what the server said.
pub(super) fn from_broken_connection(server: &Namespace, error: &ServiceError, suffix: &str) -> CallError {
    let refusal = match error {
        ServiceError::TransportSend(error) => connect_error::describe_refusal(error),
        _ => None,
    };
    let why = match refusal {
        Some(why) => format!("the server `{server}` {why}"),
        None => format!("the server `{server}` closed the connection: {error}{suffix}"),
    };
    match error {
        ServiceError::TransportSend(error) if connect_error::is_refused(error) => {
            CallError::new(ErrorKind::Unavailable, format!("{why}; the call did not run"))
                .with_hint("the next call starts it or connects again")
        }
        _ => CallError::new(ErrorKind::Interrupted, format!("{why}; the call may have run")).with_hint(MAY_HAVE_RUN),
    }
}

/// Creates the error of a call whose server could not be connected to.
pub(super) fn from_connect_error(server: &Namespace, error: &ConnectError) -> CallError {
    let mut why = format!("cannot use the server `{server}`: {error}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        why.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    let why: String = why.chars().take(MAX_QUOTED_CHARS).collect();
    let mut failure = CallError::new(ErrorKind::Unavailable, why);
    if let ConnectError::TooEarly(wait) = error {
        failure.retry_after = Some(*wait);
    }
    failure
}
