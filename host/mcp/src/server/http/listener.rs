//! A listener that serves MCP alone.

use std::net::SocketAddr;
use std::sync::Arc;

use fumehood_server::{HttpError, HttpOptions, Listener};

use super::mcp_service::{McpService, PATH};
use crate::server::mcp_server::Server;

/// A server that is bound to an address and does not accept yet.
#[derive(Debug)]
pub struct HttpListener(Listener);

impl HttpListener {
    /// Binds to the address. Nothing is served before [`HttpListener::serve`]. The size of a message is that of the server's
    /// options.
    ///
    /// # Errors
    /// See [`HttpError`].
    pub async fn bind(server: &Server, options: HttpOptions) -> Result<Self, HttpError> {
        let options = HttpOptions { body_bytes: server.options().message_bytes, ..options };
        let listener = Listener::bind(options).await?;
        listener.services().open(vec![Arc::new(McpService::new(server, &listener))]);
        Ok(Self(listener))
    }

    /// Returns the address that it is bound to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Returns the URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.0.address())
    }

    /// Serves until `stop` completes; then requests have the time of [`HttpOptions::drain`] to end, and a second more until
    /// their calls are stopped.
    pub async fn serve(self, stop: impl Future) {
        self.0.serve(stop).await;
    }
}
