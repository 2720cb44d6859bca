//! The standard streams: stdin is empty; stdout and stderr are captured up to a cap and never become part of a result.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use fumehood_core::call::result::CapturedStream;
use tokio::io::AsyncWrite;
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Maximum size of one write. Small, because some host functions allocate as much as this permits.
const MAX_WRITE_BYTES: usize = 64 << 10;

/// The captured output streams of one call, which share one cap. Clones share the streams.
#[derive(Clone)]
pub(crate) struct Capture {
    buffers: Arc<Mutex<Buffers>>,
}

/// One of the output streams, as the guest holds it.
#[derive(Clone)]
struct Stream {
    buffers: Arc<Mutex<Buffers>>,
    kind: StreamKind,
}

#[derive(Clone, Copy)]
enum StreamKind {
    Stdout,
    Stderr,
}

#[derive(Default)]
struct Buffers {
    remaining: usize,
    stdout: Buffer,
    stderr: Buffer,
}

#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    dropped: u64,
}

impl Capture {
    pub(crate) fn new(cap: usize) -> Self {
        Self { buffers: Arc::new(Mutex::new(Buffers { remaining: cap, ..Buffers::default() })) }
    }

    pub(crate) fn attach(&self, builder: &mut WasiCtxBuilder) {
        builder.stdout(self.stream(StreamKind::Stdout)).stderr(self.stream(StreamKind::Stderr));
    }

    pub(crate) fn output(&self) -> (CapturedStream, CapturedStream) {
        let buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        (buffers.stdout.output(), buffers.stderr.output())
    }

    /// Returns the size of both buffers.
    pub(crate) fn kept_bytes(&self) -> usize {
        let buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        buffers.stdout.bytes.capacity() + buffers.stderr.bytes.capacity()
    }

    fn stream(&self, kind: StreamKind) -> Stream {
        Stream { buffers: Arc::clone(&self.buffers), kind }
    }
}

impl Stream {
    /// Stores what fits and counts the rest. Writing never fails, so that a guest cannot observe a full buffer.
    fn append(&self, bytes: &[u8]) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let (fits, over) = bytes.split_at(bytes.len().min(buffers.remaining));
        buffers.remaining -= fits.len();
        let buffer = match self.kind {
            StreamKind::Stdout => &mut buffers.stdout,
            StreamKind::Stderr => &mut buffers.stderr,
        };
        buffer.bytes.extend_from_slice(fits);
        buffer.dropped = buffer.dropped.saturating_add(over.len() as u64);
    }
}

impl Buffer {
    fn output(&self) -> CapturedStream {
        CapturedStream { text: String::from_utf8_lossy(&self.bytes).into_owned().into(), dropped: self.dropped }
    }
}

impl IsTerminal for Stream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for Stream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.append(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE_BYTES)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Stream {
    async fn ready(&mut self) {}
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.append(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_share_the_cap_and_count_dropped_bytes() {
        let capture = Capture::new(8);
        capture.stream(StreamKind::Stdout).append(b"hello");
        capture.stream(StreamKind::Stderr).append(b"world");
        let (stdout, stderr) = capture.output();
        assert_eq!((&**stdout.text.expose_raw(), stdout.dropped), ("hello", 0));
        assert_eq!((&**stderr.text.expose_raw(), stderr.dropped), ("wor", 2));
        capture.stream(StreamKind::Stdout).append(b"more");
        assert_eq!(capture.output().0.dropped, 4);
    }
}
