//! `fumehood mcp`: the tools of other servers, and clients for one's own.

mod ask;
mod config;

use anyhow::Result;

use crate::args::{Arguments, Mcp};
use crate::exit::Exit;

pub(crate) async fn run(arguments: &Arguments, mcp: &Mcp) -> Result<Exit> {
    match mcp {
        Mcp::List(list) => ask::list(arguments, list).await,
        Mcp::Call(call) => ask::call(arguments, call).await,
        Mcp::Config(config) => config::run(arguments, config),
    }
}
