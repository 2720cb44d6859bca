//! Arguments of `fumehood mcp`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fumehood::limits::{parse_bytes, parse_duration};

use super::jail::JailArguments;
use super::log::Recording;

#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// List the tools of an MCP server
    List(List),
    /// Call a tool of an MCP server, after checking the arguments against its schema
    Call(CallRemote),
    /// Log in at an MCP server of the configuration, in a browser
    Login(Login),
    /// Remove the saved tokens of an MCP server of the configuration
    Logout(Logout),
    /// Print the entry to paste into the configuration of an MCP client
    Config(Config),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) options: ServerOptions,

    /// Maximum time for the server to start and list its tools [default: 15s; 60s for npx, uvx and similar programs]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,

    /// Server: a URL, or a command that starts it
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "URL|COMMAND")]
    pub(crate) server: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Login {
    /// Name of the server in [mcp.servers]
    pub(crate) name: String,

    /// Open the URL in a browser, with `xdg-open`
    #[arg(long)]
    pub(crate) open: bool,

    /// Maximum time for the login
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Logout {
    /// Name of the server in [mcp.servers]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct CallRemote {
    /// Tool, as `fumehood mcp list` lists it
    pub(crate) tool: String,

    /// Arguments: one JSON object, or NAME=VALUE pairs
    #[arg(value_name = "JSON|NAME=VALUE")]
    pub(crate) arguments: Vec<String>,

    #[command(flatten)]
    pub(crate) options: ServerOptions,

    /// Maximum wall time of the call; each progress report restarts it, up to 10m in total
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,

    /// Maximum time for the server to start and list its tools [default: 15s; 60s for npx, uvx and similar programs]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) start_timeout: Option<Duration>,

    /// Maximum size of a single string in the arguments
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_bytes)]
    pub(crate) max_string: usize,

    #[command(flatten)]
    pub(crate) recording: Recording,

    /// Server: a URL, or a command that starts it
    #[arg(last = true, required = true, value_name = "URL|COMMAND")]
    pub(crate) server: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ServerOptions {
    #[command(flatten)]
    pub(crate) jail: JailArguments,

    /// Run the server's program without a jail: it may do whatever you may do
    #[arg(long)]
    pub(crate) no_jail: bool,

    /// File with the bearer token for a server with a URL, readable only by you
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    /// Client to configure
    #[arg(value_enum)]
    pub(crate) client: Client,

    /// Components to serve: `.wasm` files [default: the components of the configuration]
    #[arg(value_name = "COMPONENT")]
    pub(crate) components: Vec<PathBuf>,

    /// Print an entry of this name for the MCP server that the command after `--` starts, in a jail
    #[arg(long, value_name = "NAME", requires = "command", conflicts_with = "components")]
    pub(crate) jail: Option<String>,

    #[command(flatten)]
    pub(crate) options: JailArguments,

    /// Command of the server for `--jail`
    #[arg(last = true, requires = "jail", value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// A client whose configuration is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// `.mcp.json` of a project
    ClaudeCode,
    /// `claude_desktop_config.json`
    ClaudeDesktop,
    /// `~/.codex/config.toml`
    Codex,
    /// `.cursor/mcp.json`
    Cursor,
    /// `~/.gemini/settings.json`
    GeminiCli,
    /// `.vscode/mcp.json`
    Vscode,
    /// `~/.codeium/windsurf/mcp_config.json`
    Windsurf,
    /// `~/.config/zed/settings.json`
    Zed,
}
