//! A stream that fails once its peer has taken nothing for too long.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::connections::Connection;

/// A stream with a deadline on the progress of writes. Any progress restarts it; it does not run while nothing is
/// written.
///
/// A peer that takes a little at a time is not cut off, but the kernel reports progress only once a third of a socket's
/// buffer is free.
pub(crate) struct WriteDeadline<T> {
    inner: T,
    timeout: Duration,
    connection: Arc<Connection>,
    /// Ends when the peer has taken nothing for the timeout.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<T> WriteDeadline<T> {
    /// Wraps a stream: a write that makes no progress for `timeout` fails, and meanwhile `connection` is marked as
    /// blocked.
    pub(crate) fn new(inner: T, timeout: Duration, connection: Arc<Connection>) -> Self {
        Self { inner, timeout, connection, waiting: None }
    }

    fn track_progress<O>(&mut self, written: Poll<io::Result<O>>, context: &mut Context<'_>) -> Poll<io::Result<O>> {
        if written.is_ready() {
            if self.waiting.take().is_some() {
                self.connection.set_blocked(None);
            }
            return written;
        }
        let waiting = self.waiting.get_or_insert_with(|| {
            self.connection.set_blocked(Some(Instant::now()));
            Box::pin(tokio::time::sleep(self.timeout))
        });
        waiting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteDeadline<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.track_progress(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.track_progress(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::connections::{Capacity, Connections};

    const TIMEOUT: Duration = Duration::from_millis(400);

    fn stream(size: usize) -> (WriteDeadline<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let connection = Connections::new(Capacity { pending: 1, authenticated: 1 }).add();
        let (ours, theirs) = tokio::io::duplex(size);
        (WriteDeadline::new(ours, TIMEOUT, Arc::new(connection)), theirs)
    }

    #[tokio::test]
    async fn fails_a_write_without_progress() {
        let (mut stream, _theirs) = stream(8);
        let started = Instant::now();
        let error = stream.write_all(&[0; 9]).await.unwrap_err();
        assert!(error.kind() == io::ErrorKind::TimedOut && started.elapsed() >= TIMEOUT, "{error}");
    }

    #[tokio::test]
    async fn accepts_a_slow_reader() {
        let (mut stream, mut theirs) = stream(8);
        let reading = tokio::spawn(async move {
            for _ in 0..12 {
                tokio::time::sleep(TIMEOUT / 8).await;
                theirs.read_exact(&mut [0; 8]).await.unwrap();
            }
        });
        stream.write_all(&[0; 96]).await.unwrap();
        reading.await.unwrap();
    }
}
