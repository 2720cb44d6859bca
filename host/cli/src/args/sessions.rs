//! Arguments of `fumehood sessions` and `fumehood approve-call`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fumehood::saved_session::is_session_id;

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    pub(crate) action: SessionsAction,

    /// Event log with the sessions [default: `fumehood/events.db` in your state folder]
    #[arg(long = "log", global = true, value_name = "FILE", env = "FUMEHOOD_LOG")]
    pub(crate) file: Option<PathBuf>,

    /// File with the key that seals the log [default: `LOG.key` next to the log]
    #[arg(long, global = true, value_name = "FILE", env = "FUMEHOOD_LOG_KEY")]
    pub(crate) log_key: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsAction {
    /// List the saved sessions, most recently changed first
    List,
    /// Show the messages, calls and state of a session
    Show {
        /// Id of the session
        id: String,
    },
    /// Remove a saved session; its records stay in the event log
    Rm {
        /// Id of the session
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ApproveCall {
    /// Id of the call, such as `trip:1`, as `run` and `sessions list` show it
    pub(crate) id: Option<String>,

    /// Approve the call; it runs when the session is resumed
    #[arg(long, requires = "id", conflicts_with = "no")]
    pub(crate) yes: bool,

    /// Refuse the call
    #[arg(long, requires = "id")]
    pub(crate) no: bool,

    /// Reason for the model, for a refused call
    #[arg(long, value_name = "TEXT", requires = "id")]
    pub(crate) reason: Option<String>,

    /// Your name for the log, which is not verified
    #[arg(long, value_name = "NAME", requires = "id")]
    pub(crate) by: Option<String>,

    /// Event log with the sessions [default: `fumehood/events.db` in your state folder]
    #[arg(long = "log", value_name = "FILE", env = "FUMEHOOD_LOG")]
    pub(crate) file: Option<PathBuf>,

    /// File with the key that seals the log [default: `LOG.key` next to the log]
    #[arg(long, value_name = "FILE", env = "FUMEHOOD_LOG_KEY")]
    pub(crate) log_key: Option<PathBuf>,
}

/// Parses the id of a saved session.
pub(crate) fn parse_session_id(text: &str) -> Result<String, String> {
    if is_session_id(text) {
        return Ok(text.to_owned());
    }
    Err("expected 1 to 64 of `a-z`, `A-Z`, `0-9`, `.`, `_` and `-`, a letter or digit first".to_owned())
}
