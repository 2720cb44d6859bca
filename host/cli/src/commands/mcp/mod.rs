//! `fumehood mcp`: calls tools of other servers, logs in at them, and prints configurations for MCP clients.

mod client;
mod config;
mod login;

use anyhow::Result;

use crate::args::{Arguments, Mcp};
use crate::exit::Exit;

pub(crate) async fn run(arguments: &Arguments, mcp: &Mcp) -> Result<Exit> {
    match mcp {
        Mcp::List(list) => client::list(arguments, list).await,
        Mcp::Call(call) => client::call(arguments, call).await,
        Mcp::Login(typed) => login::login(arguments, typed).await,
        Mcp::Logout(typed) => login::logout(arguments, typed),
        Mcp::Config(config) => config::run(arguments, config),
    }
}
