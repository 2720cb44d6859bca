//! `[jobs]`: calls that outlive their request.

use fumehood::hooks::ToolPatterns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Time};
use super::fault::KeyFault;
use super::file::Config;

/// Calls that go on after their client has left, for clients that can come back for the result: tasks of MCP, and `Prefer: respond-async` over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobsSection {
    /// Offer no jobs: every call is waited for.
    #[serde(default)]
    pub(crate) off: bool,
    /// Time after which a call over MCP becomes a job. Usually "1s".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Time>,
    /// Tools, by patterns of their full names, whose calls become jobs before they run, if their client can come back. Usually none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<String>,
    /// Time from the creation of a job until it is removed, with its result. Usually "1h".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<Time>,
    /// Maximum number of jobs of one client, ended ones included. Usually 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) per_client: Option<u32>,
    /// Size of the results of one client above which it gets no further job. Usually "64MiB".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_client: Option<Bytes>,
}

/// Adds the faults of the section.
pub(super) fn check(faults: &mut Vec<KeyFault>, config: &Config) {
    let mut add = |key: &str, message: String| faults.push((vec!["jobs".to_owned(), key.to_owned()], message));
    if let Err(error) = ToolPatterns::new(&config.jobs.tools) {
        add("tools", error.to_string());
    }
    if config.jobs.keep.is_some_and(|time| time.0.is_zero()) {
        add("keep", "a job that is kept for no time can never be asked for; leave it out for 1h".to_owned());
    }
    if config.jobs.per_client == Some(0) {
        add("per_client", "no client can have a job then; write `off = true` to offer none".to_owned());
    }
}
