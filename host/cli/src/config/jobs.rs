//! `[jobs]`: calls that outlive their request.

use fumehood::hooks::ToolPatterns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Time};
use super::fault::{KeyFault, key_fault};
use super::file::Config;

/// Jobs: calls that continue after their client has left. MCP clients use tasks, HTTP clients `Prefer: respond-async`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobsSection {
    /// Turn off jobs.
    #[serde(default)]
    pub(crate) off: bool,
    /// An MCP call becomes a job after this time, if its client supports tasks. Default: "1s".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Time>,
    /// Patterns of full names of tools whose calls become jobs before they run, if the client supports it. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<String>,
    /// Time from the creation of a job until it is removed with its result. Default: "1h".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<Time>,
    /// Maximum number of jobs of one client, including finished jobs. Default: 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) per_client: Option<u32>,
    /// Maximum size of the results of one client. Above it, new jobs are refused. Default: "64MiB".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_client: Option<Bytes>,
}

/// Adds the faults of the section.
pub(super) fn check(faults: &mut Vec<KeyFault>, config: &Config) {
    let mut add = |key: &str, message: String| faults.push(key_fault(&["jobs"], &[key], message));
    if let Err(error) = ToolPatterns::new(&config.jobs.tools) {
        add("tools", error.to_string());
    }
    if config.jobs.keep.is_some_and(|time| time.0.is_zero()) {
        add("keep", "results would be removed at once; expected more than 0, or leave it out for 1h".to_owned());
    }
    if config.jobs.per_client == Some(0) {
        add("per_client", "no client could have a job; to turn off jobs, set `off = true`".to_owned());
    }
}
