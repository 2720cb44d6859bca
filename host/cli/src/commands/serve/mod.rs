//! `fumehood serve`: the tools of components for other programs.

mod assembly;
mod library;
mod mcp;
mod offered;
mod settings;
mod stamp;
mod watch;

use anyhow::Result;

use crate::args::{Arguments, Serve};
use crate::exit::Exit;

pub(crate) async fn run(arguments: &Arguments, serve: &Serve) -> Result<Exit> {
    match serve {
        Serve::Mcp(options) => mcp::run(arguments, options).await,
    }
}
