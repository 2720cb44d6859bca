//! Arguments of `fumehood sessions`, and those of `run` and `chat` about saved sessions.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fumehood::saved_session::is_session_id;

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    pub(crate) action: SessionsAction,

    /// Event log that has the sessions [default: `fumehood/events.db` in the user's state folder]
    #[arg(long = "log", global = true, value_name = "FILE", env = "FUMEHOOD_LOG")]
    pub(crate) file: Option<PathBuf>,

    /// File with the key that seals the log [default: `LOG.key` beside the log]
    #[arg(long, global = true, value_name = "FILE", env = "FUMEHOOD_LOG_KEY")]
    pub(crate) log_key: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsAction {
    /// List the saved sessions, the one that changed last first
    List,
    /// Show what was said in a session, what was called, and where it stands
    Show {
        /// Id of the session
        id: String,
    },
    /// Remove a session, so that it cannot be resumed; its records stay in the event log
    Rm {
        /// Id of the session
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ApproveCall {
    /// Id of the call, such as `trip:1`, as the run and `sessions list` name it
    pub(crate) id: Option<String>,

    /// Let the call run once its session goes on
    #[arg(long, requires = "id", conflicts_with = "no")]
    pub(crate) yes: bool,

    /// Refuse the call
    #[arg(long, requires = "id")]
    pub(crate) no: bool,

    /// Reason, which the model is told of a refused call
    #[arg(long, value_name = "TEXT", requires = "id")]
    pub(crate) reason: Option<String>,

    /// Name for the record, which is not checked
    #[arg(long, value_name = "NAME", requires = "id")]
    pub(crate) by: Option<String>,

    /// Event log that has the sessions [default: `fumehood/events.db` in the user's state folder]
    #[arg(long = "log", value_name = "FILE", env = "FUMEHOOD_LOG")]
    pub(crate) file: Option<PathBuf>,

    /// File with the key that seals the log [default: `LOG.key` beside the log]
    #[arg(long, value_name = "FILE", env = "FUMEHOOD_LOG_KEY")]
    pub(crate) log_key: Option<PathBuf>,
}

/// Parses the id of a session that is saved.
pub(crate) fn parse_session_id(text: &str) -> Result<String, String> {
    if is_session_id(text) {
        return Ok(text.to_owned());
    }
    Err("expected 1 to 64 of `a-z`, `A-Z`, `0-9`, `.`, `_` and `-`, a letter or digit first".to_owned())
}
