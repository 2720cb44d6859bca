//! Serving over streamable HTTP, behind the listener that all protocols share.

mod listener;
mod mcp_service;

pub use listener::HttpListener;
pub use mcp_service::McpService;
