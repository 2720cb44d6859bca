//! The standard streams: stdin is empty; stdout and stderr are captured up to a cap and never become part of a result.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use fumehood_core::result::Captured;
use tokio::io::AsyncWrite;
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Maximum size of one write. Small, because some host functions allocate as much as this permits.
const MAX_WRITE_BYTES: usize = 64 << 10;

/// The captured output streams of one call, which share one cap.
pub(crate) struct Capture {
    kept: Arc<Mutex<Kept>>,
}

/// One of the output streams, as the guest holds it.
#[derive(Clone)]
struct Stream {
    kept: Arc<Mutex<Kept>>,
    which: Which,
}

#[derive(Clone, Copy)]
enum Which {
    Stdout,
    Stderr,
}

#[derive(Default)]
struct Kept {
    left: usize,
    stdout: Written,
    stderr: Written,
}

#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    dropped: u64,
}

impl Capture {
    pub(crate) fn new(cap: usize) -> Self {
        Self { kept: Arc::new(Mutex::new(Kept { left: cap, ..Kept::default() })) }
    }

    pub(crate) fn attach(&self, builder: &mut WasiCtxBuilder) {
        builder.stdout(self.stream(Which::Stdout)).stderr(self.stream(Which::Stderr));
    }

    pub(crate) fn captured(&self) -> (Captured, Captured) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.stdout.captured(), kept.stderr.captured())
    }

    fn stream(&self, which: Which) -> Stream {
        Stream { kept: Arc::clone(&self.kept), which }
    }
}

impl Stream {
    /// Stores what fits and counts the rest. Writing never fails, so that a guest cannot observe a full buffer.
    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (fits, over) = bytes.split_at(bytes.len().min(kept.left));
        kept.left -= fits.len();
        let written = match self.which {
            Which::Stdout => &mut kept.stdout,
            Which::Stderr => &mut kept.stderr,
        };
        written.bytes.extend_from_slice(fits);
        written.dropped = written.dropped.saturating_add(over.len() as u64);
    }
}

impl Written {
    fn captured(&self) -> Captured {
        Captured { text: String::from_utf8_lossy(&self.bytes).into_owned().into(), dropped: self.dropped }
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
        self.keep(&bytes);
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
        self.keep(bytes);
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
        capture.stream(Which::Stdout).keep(b"hello");
        capture.stream(Which::Stderr).keep(b"world");
        let (stdout, stderr) = capture.captured();
        assert_eq!((&**stdout.text.expose_raw(), stdout.dropped), ("hello", 0));
        assert_eq!((&**stderr.text.expose_raw(), stderr.dropped), ("wor", 2));
        capture.stream(Which::Stdout).keep(b"more");
        assert_eq!(capture.captured().0.dropped, 4);
    }
}
