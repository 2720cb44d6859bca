//! `[serve]`: tools for other programs. `[mcp.servers.NAME]`: tools of other programs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use fumehood::mcp::NamePrefix;
use fumehood::settings::ValueSource;
use fumehood::{NameError, Namespace, ResultForm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agent::CodeSetting;
use super::amount::{Bytes, Count, Time};
use super::flows::FlowLabelName;
use super::oauth::OAuthSection;
use super::tool::ApprovalRule;

/// The form of a result that a model reads, where a server wrote both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PreferredForm {
    /// The text.
    Text,
    /// The structured content.
    Structured,
}

impl PreferredForm {
    pub(crate) fn result_form(self) -> ResultForm {
        match self {
            Self::Text => ResultForm::TextFirst,
            Self::Structured => ResultForm::StructuredFirst,
        }
    }
}

/// Default address of the dashboard.
const DEFAULT_DASHBOARD: &str = "127.0.0.1:8081";

/// Tools for other programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServeSection {
    /// The address for HTTP, such as "127.0.0.1:8080". Usually none: standard input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<String>,
    /// The source of the token that callers over HTTP have to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<ValueSource>,
    /// Do without a token. Only for addresses of this machine.
    #[serde(default)]
    pub(crate) no_token: bool,
    /// The authorization server whose access tokens are accepted. Usually none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) oauth: Option<OAuthSection>,
    /// Values of the Host header that are accepted besides those of the address itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) allowed_hosts: Vec<String>,
    /// Web pages that may call, such as "https://app.example.com". Usually none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) allowed_origins: Vec<String>,
    /// The dashboard in a browser of this machine: true for 127.0.0.1:8081, or another loopback address. Usually false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dashboard: Option<DashboardSetting>,
    /// Only these tools, by their full names, are offered. Usually all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    /// Programs in JavaScript that call the tools, as a tool of their own: true, or "only" to list no other tools. Usually
    /// false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<CodeSetting>,
    /// Maximum number of calls that run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) concurrency: Option<NonZeroU32>,
    /// Maximum number of calls that wait in line; more are refused at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<u32>,
    /// Size of one request over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body_limit: Option<Bytes>,
    /// Time that calls have to end after being told to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grace: Option<Time>,
}

/// The dashboard of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum DashboardSetting {
    /// At its default address, or not at all.
    Switch(bool),
    /// At this address.
    Address(String),
}

impl DashboardSetting {
    /// Returns the address; `None` if there is no dashboard.
    ///
    /// # Errors
    /// If it is not an address of this machine alone.
    pub(crate) fn address(&self) -> Result<Option<SocketAddr>, String> {
        let written = match self {
            Self::Switch(false) => return Ok(None),
            Self::Switch(true) => DEFAULT_DASHBOARD,
            Self::Address(written) => written,
        };
        match written.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Some(address)),
            Ok(_) => {
                Err(format!("{written} can be reached from other machines; write one such as \"{DEFAULT_DASHBOARD}\""))
            }
            Err(_) => Err(format!("`{written}` is not an address; write one such as \"{DEFAULT_DASHBOARD}\", or true")),
        }
    }
}

/// Other programs whose tools are used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpSection {
    /// MCP servers. The full name of a tool is NAME__TOOL.
    #[serde(default)]
    pub(crate) servers: BTreeMap<String, McpServerSection>,
}

/// The login (OAuth 2.1) at the authorization server of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginSection {
    /// The identifier that the authorization server gave this program. Usually it registers itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_id: Option<String>,
    /// The source of the secret that belongs to `client_id`. It needs `authorization_server`, and is sent nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret: Option<ValueSource>,
    /// The scopes to ask for. Usually those that the server asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) scopes: Vec<String>,
    /// The authorization server, such as "https://login.internal.example", if its address is not a public one, or for `client_secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) authorization_server: Option<String>,
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
    /// The login at its authorization server, with `fumehood mcp login NAME`. Usually as the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) login: Option<LoginSection>,
    /// Further headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    /// Further headers whose values come from elsewhere.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) secret_headers: BTreeMap<String, ValueSource>,
    /// Wall time for one call; each report of progress begins it anew. Usually 60s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Time>,
    /// Wall time for one call in all, however often it reports progress. Usually 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_timeout: Option<Time>,
    /// Time to start and to list its tools. Usually 10s, and 60s for a program that installs first what it runs, such
    /// as npx and uvx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start_timeout: Option<Time>,
    /// The form of a result that a model reads where the server wrote both. Usually `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prefer: Option<PreferredForm>,
    /// Size of one result. Usually 1MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Bytes>,
    /// Size of a single string in the arguments of a call. Usually 1MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) string: Option<Bytes>,
    /// Messages that it may send without being asked, such as progress and logs, in one call. Usually 10k.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unasked: Option<Count>,
    /// The beginning of its tools' names for models and clients, in place of NAME: "gh" for gh__TOOL, "" for TOOL alone.
    /// NAME__TOOL is understood as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prefix: Option<String>,
    /// Only these of its tools are used, by its own names. Usually all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    /// Number of its tools that are used. Usually 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_tools: Option<Count>,
    /// Size of the descriptions of all of its tools together. The longest are cut to fit; each may have 16KiB. Usually 1MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) descriptions: Option<Bytes>,
    /// Serve its resources to MCP clients. Usually true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resources: Option<bool>,
    /// Serve its prompts to MCP clients, as NAME__PROMPT. Usually true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompts: Option<bool>,
    /// Let it ask the user of an MCP client for something during a call (elicitation). Usually true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) elicitation: Option<bool>,
    /// Let it use the model of an MCP client during a call (sampling). Usually false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sampling: Option<bool>,
    /// Let clients with MCP Apps show its pages. Usually false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) apps: Option<bool>,
    /// The origins that its pages may reach, such as "https://api.example.com". Usually none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) app_origins: Vec<String>,
    /// The data that its tools return, for [flows]: "private" or "public". Usually private if they say that they stay in
    /// a closed world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<FlowLabelName>,
    /// The place where arguments of its tools go, for [flows]: "public" or "private". Usually public unless they say
    /// that they stay in a closed world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sink: Option<FlowLabelName>,
    /// Approval of its tools: "required" (usual) or "off".
    #[serde(default)]
    pub(crate) approval: ApprovalRule,
}

impl McpServerSection {
    /// Returns the beginning of its tools' names for models and clients; `None` for the name of the server.
    pub(crate) fn name_prefix(&self) -> Option<Result<NamePrefix, NameError>> {
        let prefix = self.prefix.as_deref()?;
        Some(if prefix.is_empty() { Ok(NamePrefix::None) } else { Namespace::parse(prefix).map(NamePrefix::Other) })
    }
}
