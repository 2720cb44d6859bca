//! What can be typed after `fumehood serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::LimitArguments;
use super::log::Recording;

#[derive(Debug, Subcommand)]
pub(crate) enum Serve {
    /// Serve the tools of components to an MCP client, such as Claude Desktop or VS Code
    ///
    /// Over standard input and output, which is how clients start it; with `--http`, over streamable HTTP at /mcp.
    Mcp(ServeMcp),
}

#[derive(Debug, Args)]
pub(crate) struct ServeMcp {
    /// Components, `.wasm` files, without any power; those of the configuration are served too
    #[arg(value_name = "COMPONENT")]
    pub(crate) components: Vec<PathBuf>,

    /// On whose behalf calls are made; tools can read it
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,

    /// Name tools without their component, `add` instead of `calculator__add`, where that says which one is meant
    #[arg(long)]
    pub(crate) short_names: bool,

    /// How many calls run at once [default: 32]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) calls: Option<u32>,

    /// How many calls wait for a place; more are refused at once [default: 128]
    #[arg(long, value_name = "COUNT")]
    pub(crate) waiting: Option<u32>,

    /// Compile the components even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,

    /// Look out for changes of the components, fumehood.toml and fumehood.lock, and serve what they are then
    ///
    /// A component that has to be approved is not called once it has changed, until `fumehood approve` was run for it.
    /// One that cannot be loaded any more leaves the one before it in place. [serve], [knowledge] and [prompts] are read at the start only.
    #[arg(long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) http: Http,

    #[command(flatten)]
    pub(crate) limits: LimitArguments,

    #[command(flatten)]
    pub(crate) recording: Recording,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
pub(crate) struct Http {
    /// Serve over HTTP at this address, such as `127.0.0.1:8080`
    #[arg(long = "http", value_name = "ADDRESS")]
    pub(crate) address: Option<SocketAddr>,

    /// The token that clients must show, in a file that only you can read [default: $FUMEHOOD_MCP_TOKEN, or a new one]
    #[arg(long, value_name = "FILE", conflicts_with = "no_auth")]
    pub(crate) token_file: Option<PathBuf>,

    /// Let every program on this machine call; only at an address that others cannot reach
    #[arg(long)]
    pub(crate) no_auth: bool,

    /// Another name that clients may call this server by, such as `tools.example:8080`
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    /// Pages that may call, such as `https://app.example`
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
}
