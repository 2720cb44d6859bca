//! `[mcp.servers.NAME]`: tools of other programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Count, Time};
use super::secret::ValueSource;
use super::tool::ApprovalRule;

/// Other programs whose tools are used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpSection {
    /// MCP servers. The full name of a tool is NAME__TOOL.
    #[serde(default)]
    pub(crate) servers: BTreeMap<String, McpServerSection>,
}

/// An MCP server: either a `command` to start, or a `url`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpServerSection {
    /// The program and its arguments, such as ["npx", "-y", "server"]. No shell is involved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<Vec<String>>,
    /// The folder in which it is started. The path is relative to this configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<PathBuf>,
    /// Its environment, besides PATH, HOME, LANG and TZ: nothing else is handed on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    /// Environment variables whose values come from elsewhere.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) secret_env: BTreeMap<String, ValueSource>,
    /// The address of its endpoint, such as "https://mcp.example.com/mcp".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    /// The source of the token that is sent as `Authorization: Bearer …`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bearer: Option<ValueSource>,
    /// Further headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    /// Further headers whose values come from elsewhere.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) secret_headers: BTreeMap<String, ValueSource>,
    /// Wall time for one call. Usually 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Time>,
    /// Time to start and to list its tools. Usually 10s, and 60s for a program that installs first what it runs, such
    /// as npx and uvx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start_timeout: Option<Time>,
    /// Size of one result. Usually 1MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Bytes>,
    /// Size of a single string in the arguments of a call. Usually 1MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) string: Option<Bytes>,
    /// Messages that it may send without being asked, such as progress and logs, in one call. Usually 10k.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unasked: Option<Count>,
    /// Only these of its tools are used, by its own names. Usually all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    /// Approval of its tools: "required" (usual) or "off".
    #[serde(default)]
    pub(crate) approval: ApprovalRule,
}
