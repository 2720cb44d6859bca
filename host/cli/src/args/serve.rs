//! Arguments of `fumehood serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use fumehood_config::limits::LimitsSection;

use super::log::Recording;
use super::run::CodeName;
use crate::power_arguments::PowerArguments;

/// The protocols to serve: without a command, MCP and the HTTP API on one listener.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Serve {
    #[command(subcommand)]
    pub(crate) face: Option<Face>,

    #[command(flatten)]
    pub(crate) both: ServeHttp,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Face {
    /// Serve tools to an MCP client, such as Claude Desktop or VS Code
    ///
    /// Uses standard input and output, or with `--listen` streamable HTTP at /mcp.
    Mcp(ServeMcp),
    /// Serve tools to programs, as an HTTP API at /v1
    ///
    /// `GET /openapi.json` describes it, with one operation per tool. `fumehood serve` serves MCP as well.
    Http(ServeHttp),
}

#[derive(Debug, Args)]
pub(crate) struct ServeMcp {
    /// Address for HTTP, such as `127.0.0.1:8080`
    #[arg(long, value_name = "ADDRESS", help_heading = "HTTP")]
    pub(crate) listen: Option<SocketAddr>,

    /// The former name of `--listen`
    #[arg(long, value_name = "ADDRESS", hide = true, conflicts_with = "listen")]
    pub(crate) http: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) options: ServeOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ServeHttp {
    /// Address to listen at [default: the address in the configuration, or `127.0.0.1:8080`]
    #[arg(long, value_name = "ADDRESS", help_heading = "HTTP")]
    pub(crate) listen: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) options: ServeOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    /// Components to serve with the powers below: `.wasm` files or references
    #[arg(value_name = "COMPONENT")]
    pub(crate) components: Vec<PathBuf>,

    /// Grant wishes of the component's author that variables answer
    ///
    /// `FUMEHOOD_WISH_HTTP_1=true` grants the first of `http`. Wishes for folders, variables and secrets need the folder, the
    /// value or the secret. Bundles of `publish --mcp` set these variables to the settings of their users.
    #[arg(long)]
    pub(crate) wishes_from_env: bool,

    /// Also serve the tools of the configuration's MCP servers, as SERVER__TOOL
    ///
    /// The servers must be approved. Their calls are checked and recorded like calls of components.
    #[arg(long)]
    pub(crate) servers: bool,

    /// Run the calls of components on the workers in [cell] of the configuration
    #[cfg(feature = "cell")]
    #[arg(long)]
    pub(crate) cell: bool,

    /// Actor of the calls, which tools can read
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,

    /// For MCP clients, shorten unique names: `add` instead of `calculator__add`
    #[arg(long)]
    pub(crate) short_names: bool,

    /// For MCP clients, replace names that are longer than 64 characters or have other characters than letters, digits,
    /// `_` and `-`
    #[arg(long)]
    pub(crate) portable_names: bool,

    /// Let clients run JavaScript programs that call the tools, in addition to direct calls or (`--code=only`) instead
    /// of them
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "beside")]
    pub(crate) code: Option<CodeName>,

    /// Maximum number of concurrent calls [default: 32]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) calls: Option<u32>,

    /// Maximum number of waiting calls; further calls are refused [default: 128]
    #[arg(long, value_name = "COUNT")]
    pub(crate) waiting: Option<u32>,

    /// Compile components even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,

    /// Reload components, fumehood.toml and fumehood.lock when they change
    ///
    /// A changed component that needs approval is not called until you run `fumehood approve`. If the new version
    /// cannot be loaded, the old version stays. Tenants and `[telemetry] content` are reloaded too. Other changes are
    /// reported, and need a restart.
    #[arg(long)]
    pub(crate) watch: bool,

    /// Show tools, calls and approvals in a browser on this machine [default address: 127.0.0.1:8081]
    ///
    /// The dashboard has a separate port, and works at loopback addresses only. The login URL is printed once at the
    /// start.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:8081")]
    pub(crate) dashboard: Option<SocketAddr>,

    /// The folder of the program, if the component of the command line is an interpreter for development.
    #[arg(skip)]
    pub(crate) program: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) http: Http,

    #[command(flatten)]
    pub(crate) limits: LimitsSection,

    #[command(flatten)]
    pub(crate) powers: PowerArguments,

    #[command(flatten)]
    pub(crate) recording: Recording,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
pub(crate) struct Http {
    /// File with the bearer token for clients, readable only by you [default: $FUMEHOOD_MCP_TOKEN, or a new token]
    #[arg(long, value_name = "FILE", conflicts_with = "no_auth")]
    pub(crate) token_file: Option<PathBuf>,

    /// Accept calls without a token; works only at a loopback address
    #[arg(long)]
    pub(crate) no_auth: bool,

    /// Additional accepted Host header, such as `tools.example:8080`; repeatable
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    /// Accepted Origin header, such as `https://app.example`; repeatable
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
}
