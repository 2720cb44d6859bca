//! An open connection, whose bytes are counted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::OwnedSemaphorePermit;

use crate::wasi::account::{Account, Direction, ReportOnDrop};

/// An open connection: its two directions, of which dropping one leaves the other open.
pub(crate) struct Connection {
    pub(crate) incoming: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) outgoing: Box<dyn AsyncWrite + Send + Unpin>,
}

/// What both directions share. The connection is over and reported when it is dropped.
pub(super) struct OpenConnection {
    pub(super) report: ReportOnDrop,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// Counts the bytes of a connection.
    pub(super) fn counted(stream: TcpStream, open: OpenConnection) -> Self {
        let open = Arc::new(open);
        let (read, write) = stream.into_split();
        Self {
            incoming: Box::new(CountedRead { inner: read, open: Arc::clone(&open) }),
            outgoing: Box::new(CountedWrite { inner: write, open }),
        }
    }
}

struct CountedRead {
    inner: OwnedReadHalf,
    open: Arc<OpenConnection>,
}

struct CountedWrite {
    inner: OwnedWriteHalf,
    open: Arc<OpenConnection>,
}

fn exhausted(account: &Account, direction: Direction) -> io::Error {
    account.record_exhausted(direction);
    io::Error::other("the allowance of the call is used up")
}

impl AsyncRead for CountedRead {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { inner, open } = &mut *self;
        let account = &open.report.0;
        let read = account.transfer(Direction::In, room.remaining(), |allowed| {
            if allowed == 0 {
                return (None, 0);
            }
            let mut part = ReadBuf::new(room.initialize_unfilled_to(allowed));
            let read = Pin::new(&mut *inner).poll_read(cx, &mut part);
            let bytes = part.filled().len();
            (Some(read.map_ok(|()| bytes)), bytes)
        });
        if let Some(read) = read {
            room.advance(ready!(read)?);
            return Poll::Ready(Ok(()));
        }
        // The end of the connection is not counted.
        let mut byte = [0];
        let mut more = ReadBuf::new(&mut byte);
        ready!(Pin::new(inner).poll_read(cx, &mut more))?;
        let is_end = more.filled().is_empty();
        Poll::Ready(if is_end { Ok(()) } else { Err(exhausted(account, Direction::In)) })
    }
}

impl AsyncWrite for CountedWrite {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { inner, open } = &mut *self;
        let account = &open.report.0;
        let written = account.transfer(Direction::Out, bytes.len(), |allowed| {
            let Some(part) = bytes.get(..allowed).filter(|part| !part.is_empty()) else { return (None, 0) };
            let written = Pin::new(inner).poll_write(cx, part);
            let moved = if let Poll::Ready(Ok(written)) = &written { *written } else { 0 };
            (Some(written), moved)
        });
        match written {
            Some(written) => written,
            None if bytes.is_empty() => Poll::Ready(Ok(0)),
            None => Poll::Ready(Err(exhausted(account, Direction::Out))),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
