//! The standard streams. Of a tool, stdin is empty, and stdout and stderr are captured up to a cap and never become part of a
//! result. Of a program, stdin is part of the call, and stdout is the result.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use fumehood_core::call::result::CapturedStream;
use tokio::io::AsyncWrite;
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// Maximum size of one write. Small, because some host functions allocate as much as this permits.
const MAX_WRITE_BYTES: usize = 64 << 10;

/// A program wrote more to stdout than its result may have.
#[derive(Debug, thiserror::Error)]
#[error("the program wrote more to its standard output than a result may have")]
pub(crate) struct StdoutTooLarge;

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
    /// Bytes that may still be kept for the log.
    remaining: usize,
    /// Bytes that a program may still write to stdout; `None` if the guest is no program.
    result: Option<usize>,
    /// True once a program has tried to write more. Streams of WASI 0.3 report that to the program, which may go on.
    is_exceeded: bool,
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

    /// Captures the output of a program, whose result has at most `result` bytes.
    pub(crate) fn of_program(cap: usize, result: usize) -> Self {
        let buffers = Buffers { remaining: cap, result: Some(result), ..Buffers::default() };
        Self { buffers: Arc::new(Mutex::new(buffers)) }
    }

    /// Takes what was written to stdout, so that it is no part of [`Self::output`].
    ///
    /// # Errors
    /// If a program wrote more than its result may have.
    pub(crate) fn take_stdout(&self) -> Result<Vec<u8>, StdoutTooLarge> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.is_exceeded { Err(StdoutTooLarge) } else { Ok(std::mem::take(&mut buffers.stdout.bytes)) }
    }

    /// Returns what `read` makes of stdout and stderr.
    pub(crate) fn with_output<T>(&self, read: impl FnOnce(&[u8], &[u8]) -> T) -> T {
        let buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        read(&buffers.stdout.bytes, &buffers.stderr.bytes)
    }

    pub(crate) fn attach(&self, builder: &mut WasiCtxBuilder) {
        builder.stdout(self.stream(StreamKind::Stdout)).stderr(self.stream(StreamKind::Stderr));
    }

    pub(crate) fn output(&self) -> (CapturedStream, CapturedStream) {
        let buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        // What a failed program wrote is for the log, too.
        let stdout = if buffers.result.is_some() { buffers.remaining } else { usize::MAX };
        (buffers.stdout.output(stdout), buffers.stderr.output(usize::MAX))
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
    ///
    /// # Errors
    /// If a program has written more than its result may have: its call is over.
    fn append(&self, bytes: &[u8]) -> Result<(), StdoutTooLarge> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if let (StreamKind::Stdout, Some(left)) = (self.kind, buffers.result) {
            let Some(left) = left.checked_sub(bytes.len()) else {
                buffers.is_exceeded = true;
                return Err(StdoutTooLarge);
            };
            buffers.result = Some(left);
            buffers.stdout.bytes.extend_from_slice(bytes);
            return Ok(());
        }
        let (fits, over) = bytes.split_at(bytes.len().min(buffers.remaining));
        buffers.remaining -= fits.len();
        let buffer = match self.kind {
            StreamKind::Stdout => &mut buffers.stdout,
            StreamKind::Stderr => &mut buffers.stderr,
        };
        buffer.bytes.extend_from_slice(fits);
        buffer.dropped = buffer.dropped.saturating_add(over.len() as u64);
        Ok(())
    }
}

impl Buffer {
    /// Returns at most `max` bytes of it.
    fn output(&self, max: usize) -> CapturedStream {
        let kept = self.bytes.get(..max).unwrap_or(&self.bytes);
        let dropped = self.dropped.saturating_add((self.bytes.len() - kept.len()) as u64);
        CapturedStream { text: String::from_utf8_lossy(kept).into_owned().into(), dropped }
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
        self.append(&bytes).map_err(|error| StreamError::Trap(error.into()))
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
        Poll::Ready(self.append(bytes).map(|()| bytes.len()).map_err(std::io::Error::other))
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
        capture.stream(StreamKind::Stdout).append(b"hello").unwrap();
        capture.stream(StreamKind::Stderr).append(b"world").unwrap();
        let (stdout, stderr) = capture.output();
        assert_eq!((&**stdout.text.expose_raw(), stdout.dropped), ("hello", 0));
        assert_eq!((&**stderr.text.expose_raw(), stderr.dropped), ("wor", 2));
        capture.stream(StreamKind::Stdout).append(b"more").unwrap();
        assert_eq!(capture.output().0.dropped, 4);
    }

    #[test]
    fn stdout_of_a_program_is_bounded_as_a_result() {
        let capture = Capture::of_program(8, 10);
        capture.stream(StreamKind::Stderr).append(b"reason").unwrap();
        capture.stream(StreamKind::Stdout).append(b"0123456789").unwrap();
        assert!(capture.stream(StreamKind::Stdout).append(b"!").is_err());
        let (stdout, stderr) = capture.output();
        assert_eq!((&**stdout.text.expose_raw(), stdout.dropped), ("01", 8));
        assert_eq!((&**stderr.text.expose_raw(), stderr.dropped), ("reason", 0));
        assert!(capture.take_stdout().is_err());
        let capture = Capture::of_program(8, 10);
        capture.stream(StreamKind::Stdout).append(b"0123456789").unwrap();
        assert_eq!(capture.take_stdout().unwrap(), b"0123456789");
        let (stdout, _) = capture.output();
        assert_eq!((&**stdout.text.expose_raw(), stdout.dropped), ("", 0));
    }
}
