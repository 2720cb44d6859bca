//! OAuth 2.1: access tokens of an authorization server that clients of a listener send, and requests to such a server.
//!
//! A [`ResourceServer`] verifies access tokens (JWTs) with the keys that their issuer publishes, for the port
//! [`TokenVerifier`](fumehood_listener::TokenVerifier) of the listener. An [`HttpClient`] sends every request of OAuth,
//! those of the MCP client too: bounded, without redirects, and to public addresses unless the host was configured.

mod access_token;
mod http_client;
mod key_set;
mod key_source;
mod resource_server;

pub use http_client::{HttpClient, RequestError};
pub use resource_server::{ResourceServer, ResourceServerError, ResourceServerOptions};
