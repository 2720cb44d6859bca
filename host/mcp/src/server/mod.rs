//! The MCP server: one set of tools for any number of clients.

mod call_request;
mod client_requests;
mod completion;
mod component_library;
mod held_calls;
mod http;
mod library;
mod library_result;
mod mcp_server;
mod notifications;
mod prompts;
mod resource_subscriptions;
mod resources;
mod running_call;
mod sanitizer;
mod served_library;
mod server_handler;
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
pub use tools::NamingScheme;
