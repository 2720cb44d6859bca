//! `fumehood serve`: serves the tools of components and MCP servers to other programs.

mod cell;
mod code_mode;
mod dashboard;
mod folder_events;
mod jobs;
mod library;
mod offered_tools;
pub(crate) mod served_components;
pub(crate) mod server;
mod sessions;
mod settings;
mod tenants;
pub(crate) mod watch;

use anyhow::Result;

use self::server::Faces;
use crate::args::{Arguments, Face, Serve};
use crate::exit::Exit;

pub(crate) async fn run(arguments: &Arguments, serve: &Serve) -> Result<Exit> {
    match &serve.face {
        Some(Face::Mcp(mcp)) => server::run(arguments, &mcp.options, Faces::Mcp(mcp)).await,
        Some(Face::Http(http)) => server::run(arguments, &http.options, Faces::Http(http.listen)).await,
        None => server::run(arguments, &serve.both.options, Faces::Both(serve.both.listen)).await,
    }
}
