//! The MCP server: one set of tools for any number of clients.

mod call_request;
mod http;
mod library;
mod mcp_server;
mod notifications;
mod prompts;
mod resources;
mod sanitizer;
mod session;
mod standard_streams;
mod stdio;
mod tasks;
mod template;
mod tools;

pub use self::http::{HttpListener, McpService};
pub use library::{Entry, Library, LibraryError, Prompt, Source};
pub use mcp_server::{Server, ServerOptions};
pub use stdio::StdioError;
pub use template::Parameter;
pub use tools::Naming;
