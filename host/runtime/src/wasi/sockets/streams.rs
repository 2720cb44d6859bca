//! The streams of a connection, as a guest reads and writes them. A socket and its streams share them, because either may end one.

use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use fumehood_core::boxed::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tracing::Instrument as _;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::runtime::AbortOnDropJoinHandle;

/// Maximum size of one read and of one write.
pub(super) const MAX_CHUNK_BYTES: usize = 64 << 10;

/// A result that may not be there yet.
pub(super) enum Pending<T> {
    Waiting(AbortOnDropJoinHandle<T>),
    Ready(T),
}

impl<T: Send + 'static> Pending<T> {
    /// Runs as much of a future as needs no waiting here, and the rest of it in a task.
    pub(super) fn start(mut future: BoxFuture<'static, T>) -> Self {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Self::Ready(value),
            Poll::Pending => Self::Waiting(wasmtime_wasi::runtime::spawn(future.in_current_span())),
        }
    }

    /// Waits until the result is there.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Waiting(task) = self {
            *self = Self::Ready(ready!(Pin::new(task).poll(cx)));
        }
        Poll::Ready(())
    }

    /// Returns the result, or itself if that is not there.
    pub(super) fn take(mut self) -> Result<T, Self> {
        match self.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(()) => match self {
                Self::Ready(value) => Ok(value),
                waiting @ Self::Waiting(_) => Err(waiting),
            },
            Poll::Pending => Err(self),
        }
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes that arrive. Clones share them.
#[derive(Clone)]
pub(super) struct Reader(Arc<Mutex<ReadState>>);

enum ReadState {
    Open {
        incoming: Box<dyn AsyncRead + Send + Unpin>,
        /// What was read while the guest waited.
        ahead: Bytes,
    },
    Failed(io::Error),
    Closed,
}

impl Reader {
    pub(super) fn new(incoming: Box<dyn AsyncRead + Send + Unpin>) -> Self {
        Self(Arc::new(Mutex::new(ReadState::Open { incoming, ahead: Bytes::new() })))
    }

    /// Drops everything that arrives from now on.
    pub(super) fn close(&self) {
        *lock(&self.0) = ReadState::Closed;
    }
}

impl ReadState {
    /// Reads ahead, until there is something to return to the guest.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self::Open { incoming, ahead } = self else { return Poll::Ready(()) };
        if !ahead.is_empty() {
            return Poll::Ready(());
        }
        let mut room = BytesMut::zeroed(MAX_CHUNK_BYTES);
        let mut read = ReadBuf::new(&mut room);
        let result = ready!(Pin::new(incoming).poll_read(cx, &mut read));
        let bytes = read.filled().len();
        match result {
            Ok(()) if bytes == 0 => *self = Self::Closed,
            Ok(()) => {
                // A copy, so that few bytes do not keep a whole buffer.
                *ahead = Bytes::copy_from_slice(room.get(..bytes).unwrap_or_default());
            }
            Err(error) => *self = Self::Failed(error),
        }
        Poll::Ready(())
    }

    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        let _is_ready = self.poll_ready(&mut Context::from_waker(Waker::noop()));
        match self {
            Self::Open { ahead, .. } => Ok(ahead.split_to(size.min(ahead.len()))),
            Self::Failed(_) => match mem::replace(self, Self::Closed) {
                Self::Failed(error) => Err(StreamError::LastOperationFailed(error.into())),
                Self::Open { .. } | Self::Closed => Err(StreamError::Closed),
            },
            Self::Closed => Err(StreamError::Closed),
        }
    }
}

#[async_trait]
impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        lock(&self.0).read(size)
    }
}

#[async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {
        std::future::poll_fn(|cx| lock(&self.0).poll_ready(cx)).await;
    }
}

type Outgoing = Box<dyn AsyncWrite + Send + Unpin>;

/// The bytes that are sent. Clones share them.
#[derive(Clone)]
pub(super) struct Writer(Arc<Mutex<WriteState>>);

enum WriteState {
    Open(Outgoing),
    Writing(Pending<io::Result<Outgoing>>),
    /// The last write, after which nothing else is sent.
    Closing(Pending<io::Result<Outgoing>>),
    Failed(io::Error),
    Closed,
}

impl Writer {
    pub(super) fn new(outgoing: Outgoing) -> Self {
        Self(Arc::new(Mutex::new(WriteState::Open(outgoing))))
    }

    /// Sends what was written, and then the end.
    pub(super) fn close(&self) {
        let mut state = lock(&self.0);
        *state = match mem::replace(&mut *state, WriteState::Closed) {
            WriteState::Open(outgoing) => WriteState::Closing(Pending::start(Box::pin(shut_down(outgoing)))),
            WriteState::Writing(pending) => {
                let closing = async move { shut_down(finish(pending).await?).await };
                WriteState::Closing(Pending::start(Box::pin(closing)))
            }
            other => other,
        };
    }
}

async fn shut_down(mut outgoing: Outgoing) -> io::Result<Outgoing> {
    outgoing.shutdown().await?;
    Ok(outgoing)
}

async fn finish(mut pending: Pending<io::Result<Outgoing>>) -> io::Result<Outgoing> {
    std::future::poll_fn(|cx| pending.poll_ready(cx)).await;
    pending.take().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
}

async fn write(mut outgoing: Outgoing, bytes: Bytes) -> io::Result<Outgoing> {
    outgoing.write_all(&bytes).await?;
    Ok(outgoing)
}

impl WriteState {
    /// Waits until the last write is done.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Writing(pending) | Self::Closing(pending) => ready!(pending.poll_ready(cx)),
            Self::Open(_) | Self::Failed(_) | Self::Closed => return Poll::Ready(()),
        }
        *self = match mem::replace(self, Self::Closed) {
            Self::Writing(pending) => match pending.take() {
                Ok(Ok(outgoing)) => Self::Open(outgoing),
                Ok(Err(error)) => Self::Failed(error),
                Err(waiting) => Self::Writing(waiting),
            },
            _ => Self::Closed,
        };
        Poll::Ready(())
    }

    /// Returns how many bytes may be written now.
    fn check(&mut self) -> StreamResult<usize> {
        let _is_ready = self.poll_ready(&mut Context::from_waker(Waker::noop()));
        match self {
            Self::Open(_) => Ok(MAX_CHUNK_BYTES),
            Self::Writing(_) => Ok(0),
            Self::Failed(_) => match mem::replace(self, Self::Closed) {
                Self::Failed(error) => Err(StreamError::LastOperationFailed(error.into())),
                _ => Err(StreamError::Closed),
            },
            Self::Closing(_) | Self::Closed => Err(StreamError::Closed),
        }
    }

    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > self.check()? {
            return Err(StreamError::trap("more was written than the stream permits"));
        }
        if let Self::Open(outgoing) = mem::replace(self, Self::Closed) {
            *self = Self::Writing(Pending::start(Box::pin(write(outgoing, bytes))));
        }
        Ok(())
    }
}

#[async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        lock(&self.0).write(bytes)
    }

    /// Does nothing: everything is sent as soon as that is possible, and the stream is ready when it was.
    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        lock(&self.0).check()
    }
}

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {
        std::future::poll_fn(|cx| lock(&self.0).poll_ready(cx)).await;
    }
}
