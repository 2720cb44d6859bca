//! What can be typed after `fumehood serve`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::LimitArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum Serve {
    /// Serve the tools of components to an MCP client, such as Claude Desktop or VS Code
    ///
    /// Over standard input and output, which is how clients start it.
    Mcp(ServeMcp),
}

#[derive(Debug, Args)]
pub(crate) struct ServeMcp {
    /// The components, `.wasm` files
    #[arg(required = true, value_name = "COMPONENT")]
    pub(crate) components: Vec<PathBuf>,

    /// On whose behalf calls are made; tools can read it
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,

    /// How many calls run at once
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) calls: u32,

    /// How many calls wait for a place; more are refused at once
    #[arg(long, value_name = "COUNT", default_value_t = 128)]
    pub(crate) waiting: u32,

    /// Compile the components even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,

    #[command(flatten)]
    pub(crate) limits: LimitArguments,
}
