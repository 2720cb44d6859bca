//! The stdio transport of the server: one client over a pair of byte streams.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream as BlockingStream;

use rmcp::service::ServerInitializeError;
use rmcp::{RoleServer, ServiceExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::mcp_server::Server;
use super::session::Session;
use crate::line_transport::LineTransport;

/// Errors of serving over streams.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The handshake failed: the client did not begin with a valid MCP message.
    #[error("the client did not begin as MCP clients do")]
    Handshake(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The task that served the client panicked or was aborted.
    #[error("the task that served the client broke")]
    Broken(#[from] tokio::task::JoinError),
}

impl Server {
    /// Serves one client over this process's standard input and output, until either ends or `stop` is cancelled.
    ///
    /// Nothing else may write to standard output meanwhile. Once the client is gone, its calls are stopped at once.
    ///
    /// # Errors
    /// See [`StdioError`]. A client that disconnects is not an error.
    pub async fn serve_stdio(&self, stop: CancellationToken) -> Result<(), StdioError> {
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
        stop: CancellationToken,
    ) -> Result<(), StdioError> {
        let closed = CancellationToken::new();
        let lines = LineTransport::<RoleServer, _, _>::new(input, output, self.options().message_bytes, closed.clone());
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

/// The stream that messages are read from.
pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;
/// The stream that messages are written to.
pub(crate) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Opens standard input and output. Pipes and sockets, which clients use, are polled; anything else is read and written
/// on blocking threads.
pub(crate) fn standard_streams() -> (Input, Output) {
    let input = open_input().unwrap_or_else(|| Box::new(tokio::io::stdin()));
    let output = open_output().unwrap_or_else(|| Box::new(tokio::io::stdout()));
    (input, output)
}

fn open_input() -> Option<Input> {
    // Opened anew, a pipe is set to not block for this process only, not for others that have it.
    if let Ok(pipe) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
        return Some(Box::new(pipe));
    }
    Some(Box::new(open_socket(std::io::stdin())?))
}

fn open_output() -> Option<Output> {
    if let Ok(pipe) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
        return Some(Box::new(pipe));
    }
    Some(Box::new(open_socket(std::io::stdout())?))
}

/// Returns the stream as a non-blocking socket, if it is one. No other process shares this end of a socket.
fn open_socket(stream: impl AsFd) -> Option<UnixStream> {
    let descriptor = stream.as_fd().try_clone_to_owned().ok()?;
    let file = File::from(descriptor.try_clone().ok()?);
    if !file.metadata().ok()?.file_type().is_socket() {
        return None;
    }
    let socket = BlockingStream::from(descriptor);
    socket.set_nonblocking(true).ok()?;
    UnixStream::from_std(socket).ok()
}
