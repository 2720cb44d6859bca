//! What the process says when it ends: see `fumehood --help`.

use std::process::ExitCode;

use fumehood::{CallResult, ErrorKind, LoadError, Stage};

/// The exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    ToolFailed = 1,
    Usage = 2,
    Refused = 3,
    Stopped = 4,
    Crashed = 5,
    NotLoaded = 6,
    Host = 7,
    Interrupted = 130,
}

/// Something wrong with what was typed that only shows later than in the parser.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The code for how a call ended.
pub(crate) fn of_result(result: &CallResult) -> Exit {
    let Some(error) = result.error() else { return Exit::Ok };
    match error.kind.stage() {
        _ if error.kind == ErrorKind::Cancelled => Exit::Interrupted,
        // A tool may itself answer that its arguments are invalid, or that it lacks a power.
        Stage::Refused if result.metadata.fuel_used > 0 => Exit::ToolFailed,
        Stage::Refused => Exit::Refused,
        Stage::Stopped => Exit::Stopped,
        Stage::Crashed => Exit::Crashed,
        Stage::Failed => Exit::ToolFailed,
        Stage::Host => Exit::Host,
    }
}

/// The code for an error that kept a call from being made at all.
pub(crate) fn of_error(error: &anyhow::Error) -> Exit {
    match error.downcast_ref::<LoadError>() {
        Some(LoadError::Limits(_) | LoadError::Name { .. }) => Exit::Usage,
        Some(_) => Exit::NotLoaded,
        None if error.is::<UsageError>() => Exit::Usage,
        None => Exit::Host,
    }
}
