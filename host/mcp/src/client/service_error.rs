//! The errors of calls that a server refused, or that ended with its connection.

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::tool::name::Namespace;
use rmcp::service::ServiceError;

use super::call_clock::{CallClock, ExceededLimit};
use super::call_error::{self, MAX_QUOTED_CHARS};
use super::connect_error::challenge_of;
use super::connection::Connection;
use super::lenient;
use super::remote_options::RemoteOptions;

/// Creates the error of a call that the server refused, or that ended with the connection. `login` says how to log in.
pub(super) fn to_call_error(
    name: &Namespace,
    options: &RemoteOptions,
    login: Option<&str>,
    connection: &Connection,
    error: ServiceError,
) -> CallError {
    if let ServiceError::TransportSend(error) = &error
        && let Some(challenge) = challenge_of(error)
    {
        return call_error::from_challenge(name, &challenge, login);
    }
    match error {
        ServiceError::McpError(error) if lenient::is_unreadable(&error) => call_error::unreadable(name, &error.message),
        ServiceError::UnexpectedResponse => call_error::unreadable(name, "it is not a result of a tool"),
        ServiceError::McpError(error) if !connection.is_closed() => call_error::from_refusal(name, error),
        _ if connection.has_overflowed() => {
            let max = options.output;
            let why = format!(
                "the server `{name}` sent a message far larger than {max} bytes, or too much other data, and was \
                 disconnected"
            );
            CallError::new(ErrorKind::OutputTooLarge, why).with_hint("ask for less at once")
        }
        _ if connection.tracker().is_flooded() => {
            let max = options.unasked;
            let why = format!("the server `{name}` sent more than {max} unrequested messages");
            CallError::new(ErrorKind::OutputTooLarge, format!("{why} and was disconnected"))
        }
        error => {
            let stderr: String = connection.stderr_tail().chars().take(MAX_QUOTED_CHARS).collect();
            let suffix = if stderr.is_empty() { String::new() } else { format!("; stderr: {stderr}") };
            call_error::from_broken_connection(name, &error, &suffix)
        }
    }
}

/// Creates the error of a call that exceeded its time. Meanwhile the server sent `unmatched` answers to unknown requests.
pub(super) fn deadline(server: &Namespace, clock: &CallClock, exceeded: ExceededLimit, unmatched: u32) -> CallError {
    let (time, setting) = match exceeded {
        ExceededLimit::Unanswered => return unanswered(server, clock),
        ExceededLimit::Deadline => (clock.deadline, "its `timeout`"),
        ExceededLimit::MaxTime => (clock.max_time, "its `max_timeout`, although it reported progress"),
    };
    let mut why = format!("the server `{server}` did not answer within {} ms, {setting}", time.as_millis());
    if unmatched > 0 {
        why.push_str(&format!("; it sent {unmatched} answers to unknown requests"));
    }
    CallError::new(ErrorKind::Deadline, why).with_hint("ask for less at once; the call may have had its effect")
}

/// Creates the error of a call whose time was over before its client answered a question.
fn unanswered(server: &Namespace, clock: &CallClock) -> CallError {
    let millis = clock.max_time.as_millis();
    let why = format!("a question of the server `{server}` was not answered within {millis} ms, its `max_timeout`");
    CallError::new(ErrorKind::Deadline, why).with_hint("call again and answer sooner; the call may have had its effect")
}
