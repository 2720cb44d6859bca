//! MCP both ways: tools of this host for MCP clients, and tools of MCP servers for this host.
//!
//! The only crate that names rmcp. It is independent of the sandbox and the agent loop: it serves any
//! [`ToolProvider`](fumehood_core::tool::ToolProvider), and a [`Remote`] is a source of tools.

mod bounds;
mod client;
mod http;
mod library;
mod line_splitter;
mod line_transport;
mod parse_queue;
mod raw_arguments;
mod server;
mod template;

pub use client::{
    AddressError, ConnectError, Endpoint, HeaderError, Headers, Launch, LaunchWrapper, Remote, RemoteOptions,
    RemoteTool, ToolNotice, check_address, end_with_parent,
};
pub use http::{Access, HttpError, HttpListener, HttpOptions, Principal, Token, TokenError};
pub use library::{Entry, Library, LibraryError, Prompt, Source};
pub use server::{Naming, Server, ServerOptions, StdioError};
pub use template::Parameter;
