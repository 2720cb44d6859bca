//! `fumehood serve`: serves the tools of components and MCP servers to other programs.

mod code_mode;
mod folder_events;
mod library;
mod mcp;
mod served_components;
mod served_tools;
mod settings;
mod watch;

use anyhow::Result;

use crate::args::{Arguments, Serve};
use crate::exit::Exit;

pub(crate) async fn run(arguments: &Arguments, serve: &Serve) -> Result<Exit> {
    match serve {
        Serve::Mcp(options) => mcp::run(arguments, options).await,
    }
}
