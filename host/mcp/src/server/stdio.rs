//! The stdio transport of the server: one client over a pair of byte streams.

use std::pin::pin;
use std::sync::Arc;

use rmcp::service::ServerInitializeError;
use rmcp::transport::Transport;
use rmcp::{RoleServer, ServiceExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::held_calls::HeldCalls;
use super::mcp_server::Server;
use super::session::{Principal, Session};
use super::standard_streams::standard_streams;
use crate::transport::line_transport::LineTransport;

/// Errors of serving over streams.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The handshake failed: the client did not begin with a valid MCP message.
    #[error("the client did not complete the MCP handshake")]
    Handshake(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The task that served the client panicked or was aborted.
    #[error("the task that served the client failed")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Server {
    /// Serves one client over this process's standard input and output, until either ends or `stop` completes.
    ///
    /// Nothing else may write to standard output meanwhile. Once the client is gone, its calls are stopped at once.
    ///
    /// # Errors
    /// See [`StdioError`]. A client that disconnects is not an error.
    pub async fn serve_stdio(&self, stop: impl Future) -> Result<(), StdioError> {
        let (input, output) = standard_streams();
        self.serve_streams(input, output, stop).await
    }

    /// Like [`Self::serve_stdio`], over any two streams.
    ///
    /// # Errors
    /// See [`StdioError`].
    pub async fn serve_streams(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        stop: impl Future,
    ) -> Result<(), StdioError> {
        let closed = CancellationToken::new();
        let lines = LineTransport::<RoleServer, _, _>::new(input, output, self.options().message_bytes, closed.clone());
        let principal =
            Principal { actor: self.actor(), owner: Arc::clone(&self.options().job_owner), decides_sampling: true };
        let held = HeldCalls::new(self.held_places(), &closed);
        let session = Session::new(self.clone(), principal, closed, held);
        let stopped = CancellationToken::new();
        let mut serving = pin!(serve_session(session, lines, stopped.clone()));
        tokio::select! {
            biased;
            served = &mut serving => return served,
            _ = stop => stopped.cancel(),
        }
        serving.await
    }
}

/// Serves a client from its handshake until it disconnects or `stop` is cancelled.
async fn serve_session(
    session: Session,
    transport: impl Transport<RoleServer> + 'static,
    stop: CancellationToken,
) -> Result<(), StdioError> {
    match session.serve_with_ct(transport, stop).await {
        Ok(running) => {
            running.waiting().await.map_err(|error| StdioError::Broken(Box::new(error)))?;
            Ok(())
        }
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(StdioError::Handshake(Box::new(error))),
    }
}
