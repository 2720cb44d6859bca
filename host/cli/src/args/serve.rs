//! Arguments of `fumehood serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::LimitArguments;
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
    /// Serve the tools of components to an MCP client, such as Claude Desktop or VS Code
    ///
    /// Uses standard input and output, as clients start it; with `--listen`, streamable HTTP at /mcp.
    Mcp(ServeMcp),
    /// Serve the tools of components to programs, as an HTTP API at /v1
    ///
    /// `GET /openapi.json` describes it, with each tool as an operation of its own. `fumehood serve` serves MCP beside it.
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
    /// Address to listen at [default: that of the configuration, or `127.0.0.1:8080`]
    #[arg(long, value_name = "ADDRESS", help_heading = "HTTP")]
    pub(crate) listen: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) options: ServeOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    /// Components, `.wasm` files or references, served with the powers below
    #[arg(value_name = "COMPONENT")]
    pub(crate) components: Vec<PathBuf>,

    /// Serve the tools of the configuration's MCP servers as well, as SERVER__TOOL
    ///
    /// Each of them has to be approved, and its calls are checked and recorded, as those of components are.
    #[arg(long)]
    pub(crate) servers: bool,

    /// Send the calls of components to the workers of the cell, as [cell] of the configuration says
    #[cfg(feature = "cell")]
    #[arg(long)]
    pub(crate) cell: bool,

    /// Actor of the calls; tools can read it
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,

    /// Name tools without their component where that is unique: `add` instead of `calculator__add`; for MCP clients
    #[arg(long)]
    pub(crate) short_names: bool,

    /// Give MCP clients names of at most 64 letters, digits, `_` and `-`: aliases where names are longer or have others
    #[arg(long)]
    pub(crate) portable_names: bool,

    /// Offer programs in JavaScript that call the tools, beside them or with `--code=only` instead of them
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "beside")]
    pub(crate) code: Option<CodeName>,

    /// Maximum number of concurrent calls [default: 32]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) calls: Option<u32>,

    /// Maximum number of calls that wait for a place; more are refused [default: 128]
    #[arg(long, value_name = "COUNT")]
    pub(crate) waiting: Option<u32>,

    /// Compile the components even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,

    /// Reload components, fumehood.toml and fumehood.lock when they change
    ///
    /// A component that has to be approved is not called after a change until `fumehood approve` was run for it. One that
    /// cannot be loaded any more leaves the one before it in place. Of the rest, tenants and `[telemetry] content` change; a change
    /// of anything else is said, and holds from the next start.
    #[arg(long)]
    pub(crate) watch: bool,

    /// Show tools, calls and approvals in a browser of this machine [default address: 127.0.0.1:8081]
    ///
    /// It has a port of its own, at a loopback address only. The URL that logs you in is printed once at the start.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:8081")]
    pub(crate) dashboard: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) http: Http,

    #[command(flatten)]
    pub(crate) limits: LimitArguments,

    #[command(flatten)]
    pub(crate) powers: PowerArguments,

    #[command(flatten)]
    pub(crate) recording: Recording,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
pub(crate) struct Http {
    /// File with the token that clients must send, readable only by you [default: $FUMEHOOD_MCP_TOKEN, or a new one]
    #[arg(long, value_name = "FILE", conflicts_with = "no_auth")]
    pub(crate) token_file: Option<PathBuf>,

    /// Accept calls of every program on this machine; only at a loopback address
    #[arg(long)]
    pub(crate) no_auth: bool,

    /// Additional accepted Host header, such as `tools.example:8080`; repeatable
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    /// Accepted Origin header, such as `https://app.example`; repeatable
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
}
