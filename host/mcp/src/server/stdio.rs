//! Serving one client over a pair of byte streams, such as standard input and output.

use rmcp::service::ServerInitializeError;
use rmcp::{RoleServer, ServiceExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::offer::Server;
use super::session::Session;
use super::streams;
use crate::lines::Lines;

/// Why serving over streams did not go on to its end.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The client began with something that is no MCP.
    #[error("the client did not begin as MCP clients do")]
    Handshake(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The task that served it broke.
    #[error("the task that served the client broke")]
    Broken(#[from] tokio::task::JoinError),
}

impl Server {
    /// Serves one client over this process's standard input and output until either ends, or until `stop`.
    ///
    /// Nothing else may write to standard output meanwhile. When the client is gone, its calls are stopped at once.
    ///
    /// # Errors
    /// See [`StdioError`]. A client that leaves is no error.
    pub async fn serve_stdio(&self, stop: CancellationToken) -> Result<(), StdioError> {
        let (input, output) = streams::standard();
        self.serve_streams(input, output, stop).await
    }

    /// The same over any two streams.
    ///
    /// # Errors
    /// See [`StdioError`].
    pub async fn serve_streams(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        stop: CancellationToken,
    ) -> Result<(), StdioError> {
        let closed = CancellationToken::new();
        let lines = Lines::<RoleServer, _, _>::new(input, output, self.options().message_bytes, closed.clone());
        let session = Session::new(self.clone(), self.options().actor.clone(), closed);
        match session.serve_with_ct(lines, stop).await {
            Ok(running) => {
                running.waiting().await?;
                Ok(())
            }
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
            Err(error) => Err(StdioError::Handshake(Box::new(error))),
        }
    }
}
