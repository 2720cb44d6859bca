//! `[jobs]`: calls that outlive their request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::{Bytes, Time};

/// Jobs: calls that continue after their client has left. MCP clients use tasks, HTTP clients `Prefer: respond-async`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobsSection {
    /// Turn off jobs.
    #[serde(default)]
    pub off: bool,
    /// An MCP call becomes a job after this time, if its client supports tasks. Default: "1s".
    pub after: Option<Time>,
    /// Patterns of full names of tools whose calls become jobs before they run, if the client supports it. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Time from the creation of a job until it is removed with its result. Default: "1h".
    pub keep: Option<Time>,
    /// Maximum number of jobs of one client, including finished jobs. Default: 64.
    pub per_client: Option<u32>,
    /// Maximum size of the results of one client. Above it, new jobs are refused. Default: "64MiB".
    pub bytes_per_client: Option<Bytes>,
}
