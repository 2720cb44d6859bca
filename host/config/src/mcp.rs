//! `[serve]`: tools for other programs. `[mcp.servers.NAME]`: tools of other programs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use fumehood_core::policy::permission::http::ProxyGrant;
use fumehood_core::tool::ResultForm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::agent::CodeSetting;
use crate::amount::{Bytes, Count, Time};
use crate::flows::FlowLabelName;
use crate::oauth::OAuthSection;
use crate::package::PackageReference;
use crate::powers::parse_addresses;
use crate::secret::ValueSource;
use crate::tool::ApprovalRule;

/// The form of a result that the model reads, if the server wrote it both as text and as structured content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreferredForm {
    /// The text.
    Text,
    /// The structured content.
    Structured,
}

impl McpServerSection {
    /// Returns the requests that the program may make; `None` for none.
    ///
    /// # Errors
    /// If a rule or an address is invalid: its key, and the reason.
    pub fn requests(&self) -> Result<Option<ProxyGrant>, (&'static str, String)> {
        let private = self.private_addresses.iter().map(|text| parse_addresses(text)).collect::<Result<_, _>>();
        let private: Vec<_> = private.map_err(|message| ("private_addresses", message))?;
        if self.http.is_empty() {
            if private.is_empty() {
                return Ok(None);
            }
            return Err(("private_addresses", "`private_addresses` has no effect without `http`".to_owned()));
        }
        ProxyGrant::new(&self.http, private).map(Some).map_err(|error| ("http", error.to_string()))
    }

    /// Returns whether it has a setting of a jail.
    pub fn has_jail_settings(&self) -> bool {
        let lists = self.read.len() + self.write.len() + self.http.len() + self.private_addresses.len();
        lists > 0 || self.limits.is_some()
    }
}

impl PreferredForm {
    /// Returns the form as results have it.
    pub fn result_form(self) -> ResultForm {
        match self {
            Self::Text => ResultForm::TextFirst,
            Self::Structured => ResultForm::StructuredFirst,
        }
    }
}

/// Default address of the dashboard.
const DEFAULT_DASHBOARD: &str = "127.0.0.1:8081";

/// The server for other programs: `fumehood serve`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServeSection {
    /// The address for HTTP, such as "127.0.0.1:8080". Default: standard input and output.
    pub http: Option<String>,
    /// The source of the bearer token of HTTP clients.
    pub token: Option<ValueSource>,
    /// Allow clients without a token. Works only with addresses of this machine.
    #[serde(default)]
    pub no_token: bool,
    /// The authorization server whose access tokens are accepted. Default: none.
    pub oauth: Option<OAuthSection>,
    /// Accepted Host headers, in addition to the address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call the server, such as "https://app.example.com". Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_origins: Vec<String>,
    /// The dashboard for browsers on this machine: true for 127.0.0.1:8081, or another loopback address. Default:
    /// false.
    pub dashboard: Option<DashboardSetting>,
    /// Full names of the tools to serve. Default: all tools.
    pub tools: Option<Vec<String>>,
    /// Let clients run JavaScript programs that call the tools: true, or "only" to list no other tools. Default: false.
    pub code: Option<CodeSetting>,
    /// Maximum number of running calls. Default: 32.
    pub concurrency: Option<NonZeroU32>,
    /// Maximum number of waiting calls. Further calls are refused. Default: 128.
    pub queue: Option<u32>,
    /// Maximum size of a request body. Default: 4MiB.
    pub body_limit: Option<Bytes>,
    /// Time for running calls to finish at shutdown. Default: 10s.
    pub grace: Option<Time>,
}

/// The dashboard of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DashboardSetting {
    /// True: at the default address. False: no dashboard.
    Switch(bool),
    /// At this address.
    Address(String),
}

impl DashboardSetting {
    /// Returns the address; `None` if there is no dashboard.
    ///
    /// # Errors
    /// If it is not an address of this machine alone.
    pub fn address(&self) -> Result<Option<SocketAddr>, String> {
        let written = match self {
            Self::Switch(false) => return Ok(None),
            Self::Switch(true) => DEFAULT_DASHBOARD,
            Self::Address(written) => written,
        };
        match written.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Some(address)),
            Ok(_) => Err(format!(
                "{written} is reachable from other machines; expected a loopback address such as \
                 \"{DEFAULT_DASHBOARD}\""
            )),
            Err(_) => {
                Err(format!("invalid address `{written}`; expected one such as \"{DEFAULT_DASHBOARD}\", or true"))
            }
        }
    }
}

/// MCP servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpSection {
    /// MCP servers. The full name of a tool is NAME__TOOL.
    #[serde(default)]
    pub servers: BTreeMap<String, McpServerSection>,
}

/// The login (OAuth 2.1) at the authorization server of an MCP server.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginSection {
    /// The client ID that the authorization server issued. Default: Fumehood registers itself.
    pub client_id: Option<String>,
    /// The source of the client secret. It requires `authorization_server`, and is sent only there.
    pub client_secret: Option<ValueSource>,
    /// The scopes to request. Default: the server chooses them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The authorization server, such as "https://login.internal.example". Required if its address is not public, and
    /// with `client_secret`.
    pub authorization_server: Option<String>,
}

/// The isolation of the program of an MCP server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgramIsolation {
    /// A kernel jail, as far as the kernel supports it.
    #[default]
    Jail,
    /// A complete kernel jail. The program does not start without it.
    Required,
    /// None: it may do whatever the user may do.
    None,
}

/// Limits of the program of an MCP server.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Jail"))]
#[serde(deny_unknown_fields)]
pub struct ProgramLimitsSection {
    /// Maximum memory of each of its processes. Default: 2GiB.
    #[cfg_attr(feature = "clap", arg(id = "program.memory", long = "memory", value_name = "BYTES"))]
    pub memory: Option<Bytes>,
    /// Maximum CPU time of each of its processes. Default: 1h.
    #[cfg_attr(feature = "clap", arg(id = "program.cpu", long = "cpu", value_name = "TIME"))]
    pub cpu: Option<Time>,
    /// Maximum number of its processes and threads. It has no effect on programs of root. Default: 256.
    #[cfg_attr(feature = "clap", arg(id = "program.processes", long = "processes", value_name = "COUNT"))]
    pub processes: Option<Count>,
    /// Maximum number of open files of each of its processes. Default: 1024.
    #[cfg_attr(feature = "clap", arg(id = "program.open_files", long = "open-files", value_name = "COUNT"))]
    pub open_files: Option<Count>,
    /// Maximum size of a file that it writes. Default: 1GiB.
    #[cfg_attr(feature = "clap", arg(id = "program.file_size", long = "file-size", value_name = "BYTES"))]
    pub file_size: Option<Bytes>,
}

/// An MCP server: either a `command` to start, or a `url`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServerSection {
    /// The installed package of npm or PyPI that the program of `command` belongs to, as `fumehood add npm:NAME` writes it.
    #[schemars(with = "Option<String>")]
    pub package: Option<PackageReference>,
    /// The program and its arguments, such as ["npx", "-y", "server"]. No shell is involved.
    pub command: Option<Vec<String>>,
    /// The working folder of the program, relative to this configuration.
    pub folder: Option<PathBuf>,
    /// Isolation of the program: "jail" (default), "required" to start it only in a complete jail, or "none".
    pub isolation: Option<ProgramIsolation>,
    /// Files and folders that the program may read, relative to this configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// Folders that the program may read and change, relative to this configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// Requests that the program may make, as "METHODS URL". The method and path of https requests cannot be seen, so
    /// that their rules allow all: "* https://api.example.com/**".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<String>,
    /// Private addresses that its requests may reach, such as "127.0.0.1/32".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private_addresses: Vec<String>,
    /// Limits of the program.
    pub limits: Option<ProgramLimitsSection>,
    /// Environment variables of the program, in addition to PATH, LANG and TZ. HOME is a folder of the server, or yours
    /// without a jail. Other variables are not passed on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Environment variables with secret values, and their sources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secret_env: BTreeMap<String, ValueSource>,
    /// The URL of its endpoint, such as "https://mcp.example.com/mcp".
    pub url: Option<String>,
    /// The source of the bearer token.
    pub bearer: Option<ValueSource>,
    /// Settings for `fumehood mcp login NAME`. The server provides the defaults.
    pub login: Option<LoginSection>,
    /// Headers of requests to the server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Headers with secret values, and their sources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secret_headers: BTreeMap<String, ValueSource>,
    /// Maximum wall time of one call. Each progress report restarts it, up to `max_timeout`. Default: 60s.
    pub timeout: Option<Time>,
    /// Maximum total wall time of one call. Default: 10m.
    pub max_timeout: Option<Time>,
    /// Maximum time to start and list its tools. Default: 10s, and 60s for installed packages and for programs such as npx
    /// and uvx that install other programs first.
    pub start_timeout: Option<Time>,
    /// The form of a result that the model reads, if the server wrote both: "text" or "structured". Default: "text".
    pub prefer: Option<PreferredForm>,
    /// Maximum size of a result. Default: 1MiB.
    pub output: Option<Bytes>,
    /// Maximum size of a single string in the arguments. Default: 1MiB.
    pub string: Option<Bytes>,
    /// Maximum number of unrequested messages in one call, such as progress and logs. Default: 10k.
    pub unasked: Option<Count>,
    /// Prefix of its tools' names for models and clients: "gh" for gh__TOOL, "" for TOOL alone. Default: the server's
    /// name. NAME__TOOL is always accepted too.
    pub prefix: Option<String>,
    /// The tools to use, by the server's own names. Default: all.
    pub tools: Option<Vec<String>>,
    /// Maximum number of tools. Only this many are used, from the start of its list. Default: 1000.
    pub max_tools: Option<Count>,
    /// Maximum size of all descriptions together. The longest are cut to fit. Each description may have 16KiB. Default:
    /// 1MiB.
    pub descriptions: Option<Bytes>,
    /// Offer its resources to MCP clients. Default: true.
    pub resources: Option<bool>,
    /// Offer its prompts to MCP clients, as NAME__PROMPT. Default: true.
    pub prompts: Option<bool>,
    /// Let it ask the user of an MCP client during a call (elicitation). Default: true.
    pub elicitation: Option<bool>,
    /// Let it use the model of an MCP client during a call (sampling). Default: false.
    pub sampling: Option<bool>,
    /// Let clients show its pages (MCP Apps). Default: false.
    pub apps: Option<bool>,
    /// Origins that its pages may reach, such as "https://api.example.com". Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub app_origins: Vec<String>,
    /// The label of its tools' results, for [flows]: "private" or "public". Default: private for tools that declare
    /// `openWorldHint = false`.
    pub source: Option<FlowLabelName>,
    /// The label of its tools' arguments, for [flows]: "public" or "private". Default: public, except for tools that
    /// declare `openWorldHint = false`.
    pub sink: Option<FlowLabelName>,
    /// Approval of its tools: "required" (default) or "off".
    #[serde(default)]
    pub approval: ApprovalRule,
}
