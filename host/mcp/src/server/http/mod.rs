//! Serving over streamable HTTP, behind the listener that all protocols share.

mod listener;
mod mcp_service;
mod session_table;

pub use listener::HttpListener;
pub use mcp_service::McpService;
