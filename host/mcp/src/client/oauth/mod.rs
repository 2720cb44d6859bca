//! OAuth 2.1 of the client: logins at the authorization server of an MCP server, and access tokens for its requests.
//!
//! The protocol (discovery, registration, PKCE, refresh) is rmcp's. Here are its requests, which obey the rules of
//! [`HttpClient`](fumehood_server::oauth::HttpClient), the file of its tokens, and the end of a login in a browser.

mod credential_file;
mod discovery;
mod http_client;
mod login;
mod token_source;

use std::fmt;
use std::path::PathBuf;

pub use login::{Login, LoginError, logout};
pub(super) use token_source::TokenSource;

/// The settings of logins at a server, and the place of their tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuthOptions {
    /// The file of the tokens, which belongs to this user alone.
    pub file: PathBuf,
    /// The identifier that the authorization server gave this program. Without one it registers itself (RFC 7591).
    pub client_id: Option<String>,
    /// The secret that belongs to `client_id`. It is sent to `authorization_server` alone.
    pub client_secret: Option<ClientSecret>,
    /// The scopes to ask for. Without any, those that the server asks for.
    pub scopes: Vec<String>,
    /// The authorization server, if it may be connected to wherever it is. Others must have public addresses.
    pub authorization_server: Option<String>,
    /// The way to log in, as a part of error messages, such as a command.
    pub hint: String,
}

/// The secret of this program at an authorization server. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSecret(String);

impl ClientSecret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(secret: String) -> Self {
        Self(secret)
    }

    fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSecret(…)")
    }
}
