//! OAuth 2.1: access tokens of an authorization server that clients of a listener send, and requests to such a server.
//!
//! A [`ResourceServer`] verifies access tokens (JWTs) with the keys that their issuer publishes, for the port
//! [`TokenVerifier`](crate::TokenVerifier) of the listener. An [`HttpClient`] sends every request of OAuth,
//! those of the MCP client too: bounded, without redirects, and to public addresses unless the host was configured.
//!
//! ```
//! use std::sync::Arc;
//!
//! use fumehood_server::{Access, HttpOptions};
//! use fumehood_server::oauth::{ResourceServer, ResourceServerOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut options = ResourceServerOptions::new("https://login.example.com", "https://tools.example.com/mcp");
//! options.scopes = vec!["tools".to_owned()];
//! ResourceServer::check(&options)?;
//!
//! let mut http = HttpOptions::new(([127, 0, 0, 1], 8080).into(), Access::Tenants(Vec::new()));
//! http.verifier = Some(Arc::new(ResourceServer::new(options)?));
//! # Ok(())
//! # }
//! ```

mod access_token;
mod http_client;
mod key_set;
mod key_source;
mod resource_server;

pub use http_client::{HttpClient, RequestError};
pub use resource_server::{ResourceServer, ResourceServerError, ResourceServerOptions};
