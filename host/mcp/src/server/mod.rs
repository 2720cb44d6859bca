//! The MCP server: one set of tools for any number of clients.

mod call_tool_result;
mod catalogue;
mod instructions;
mod logging;
mod mcp_server;
mod notifications;
mod resources;
mod sanitizer;
mod session;
mod standard_streams;
mod stdio;

pub use catalogue::Naming;
pub use mcp_server::{Server, ServerOptions};
pub(crate) use session::Session;
pub use stdio::StdioError;
