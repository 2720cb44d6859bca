//! MCP both ways: tools of this host for MCP clients, and tools of MCP servers for this host.
//!
//! The only crate that names rmcp. It is independent of the sandbox and the agent loop: it serves any
//! [`ToolProvider`](fumehood_core::tool::ToolProvider), and a [`Remote`] is a source of tools.

mod apps;
mod client;
mod log_level;
mod server;
mod transport;

pub use client::{
    AddressError, ClientSecret, ConnectError, Credentials, Endpoint, HeaderError, Headers, Launch, LaunchWrapper,
    LibraryOptions, ListChanges, Login, LoginError, NamePrefix, OAuthOptions, Remote, RemoteLibrary, RemoteOptions,
    RemoteTool, ServerRequestPolicy, ToolNotice, check_address, end_with_parent, logout,
};
pub use fumehood_listener::{Access, HttpError, HttpOptions, Tenant, Token, TokenError};
pub use log_level::LogLevel;
pub use server::{
    Entry, HttpListener, Library, LibraryError, McpService, Naming, Parameter, Prompt, Server, ServerOptions, Source,
    StdioError,
};
