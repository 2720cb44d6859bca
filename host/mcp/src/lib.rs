//! The MCP client and server of the Fumehood tool host: tools of MCP servers for the host, and its tools for MCP clients.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! The only crate that names rmcp. It is independent of the sandbox and the agent loop: it serves any
//! [`ToolProvider`](fumehood_core::tool::ToolProvider), and a [`Remote`] is a source of tools.
//!
//! ```no_run
//! use fumehood_core::tool::name::Namespace;
//! use fumehood_mcp::{Endpoint, Launch, Remote, RemoteOptions};
//!
//! # async fn list() -> Result<(), Box<dyn std::error::Error>> {
//! let launch = Launch { program: "mcp-server-time".into(), ..Launch::default() };
//! let server = Remote::new(Namespace::parse("time")?, Endpoint::Process(launch), RemoteOptions::default());
//! for tool in server.tools().await? {
//!     println!("{tool:?}");
//! }
//! server.close().await;
//! # Ok(())
//! # }
//! ```

mod apps;
mod client;
mod log_level;
mod server;
mod transport;

pub use client::{
    AddressError, ClientSecret, ConnectError, Credentials, Endpoint, HeaderError, Headers, Launch, LaunchSandbox,
    LaunchWrapper, LibraryOptions, ListChanges, Login, LoginError, NamePrefix, OAuthOptions, Remote, RemoteLibrary,
    RemoteOptions, RemoteTool, SandboxedLaunch, ServerRequestPolicy, ToolNotice, check_address, end_with_parent,
    logout,
};
pub use fumehood_server::{Access, HttpError, HttpOptions, Tenant, Token, TokenError};
pub use log_level::LogLevel;
pub use server::{
    Entry, HttpListener, Library, LibraryError, McpService, NamingScheme, Parameter, Prompt, Server, ServerOptions,
    Source, StdioError,
};
