//! Input and output streams of files.

use std::fs::File;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{DynInputStream, InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::attempt::Attempt;
use super::call_files::{OpenFile, Slot, StreamSlot};
use super::ledger::{Position, WriteError};
use crate::engine::file_pool::{FilePool, Gone, Work};

/// Maximum size of one write.
const MAX_WRITE_BYTES: usize = 64 << 10;

/// An input stream of a file: wasmtime's own, run on threads for file work.
pub(super) struct FileInputStream {
    inner: DynInputStream,
    pool: FilePool,
    _slot: Option<Arc<Slot>>,
    _stream: StreamSlot,
}

impl FileInputStream {
    pub(super) fn new(inner: DynInputStream, pool: &FilePool, open: &OpenFile, stream: StreamSlot) -> Self {
        Self { inner, pool: pool.clone(), _slot: open.slot.clone(), _stream: stream }
    }
}

#[async_trait]
impl InputStream for FileInputStream {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let Self { inner, pool, .. } = self;
        pool.entered(|| inner.read(size))
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        let Self { inner, pool, .. } = self;
        pool.within(inner.blocking_read(size)).await
    }

    async fn cancel(&mut self) {
        let Self { inner, pool, .. } = self;
        pool.within(inner.cancel()).await;
    }
}

#[async_trait]
impl Pollable for FileInputStream {
    async fn ready(&mut self) {
        let Self { inner, pool, .. } = self;
        pool.within(inner.ready()).await;
    }
}

/// An output stream to a file, which charges each write to the folder's account first.
pub(super) struct FileOutputStream {
    state: State,
    position: Position,
    open: OpenFile,
    pool: FilePool,
    attempt: Attempt,
    _stream: StreamSlot,
}

enum State {
    Ready,
    Writing(Work<Result<usize, WriteError>>),
    /// The last write failed, and its error was not reported to the guest yet.
    Failed(StreamError),
    Closed,
}

/// The error of a stream for a quota that is used up.
#[derive(Debug, thiserror::Error)]
#[error("the quota of the folder is used up")]
pub(super) struct QuotaExceeded;

/// The error of a stream whose last write failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the file: {0}")]
struct WriteFailure(ErrorCode);

impl FileOutputStream {
    pub(super) fn new(
        open: OpenFile,
        position: Position,
        pool: &FilePool,
        attempt: Attempt,
        stream: StreamSlot,
    ) -> Self {
        Self { state: State::Ready, position, open, pool: pool.clone(), attempt, _stream: stream }
    }

    /// Returns the state after a write, and advances the position.
    fn state_after(&mut self, result: Result<Result<usize, WriteError>, Gone>) -> State {
        match result {
            Ok(Ok(written)) => {
                if let Position::At(offset) = &mut self.position {
                    *offset = offset.saturating_add(written as u64);
                }
                State::Ready
            }
            Ok(Err(WriteError::System(code))) => {
                State::Failed(StreamError::LastOperationFailed(WriteFailure(code).into()))
            }
            Ok(Err(WriteError::QuotaExceeded(spent))) => {
                let _code = self.attempt.spent_error(spent);
                State::Failed(StreamError::LastOperationFailed(QuotaExceeded.into()))
            }
            Err(Gone) => State::Closed,
        }
    }

    /// Returns the error of the last write, once.
    fn take_error(&mut self) -> StreamResult<()> {
        match mem::replace(&mut self.state, State::Closed) {
            State::Failed(error) => Err(error),
            State::Closed => Err(StreamError::Closed),
            other => {
                self.state = other;
                Ok(())
            }
        }
    }
}

#[async_trait]
impl OutputStream for FileOutputStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        // More than `check_write` permitted would be buffered in the host, outside the guest's memory ceiling.
        if !matches!(self.state, State::Ready) || bytes.len() > MAX_WRITE_BYTES {
            self.take_error()?;
            return Err(StreamError::trap("a write that `check_write` did not permit"));
        }
        if !bytes.is_empty() {
            let open = self.open.clone();
            let position = self.position;
            self.state = State::Writing(self.pool.run(move || write(&open, &bytes, position)));
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.take_error()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.take_error()?;
        Ok(if matches!(self.state, State::Writing(_)) { 0 } else { MAX_WRITE_BYTES })
    }

    /// Waits for the pending write, so that a guest cannot accumulate them.
    async fn cancel(&mut self) {
        self.ready().await;
        self.state = State::Closed;
    }
}

#[async_trait]
impl Pollable for FileOutputStream {
    async fn ready(&mut self) {
        if let State::Writing(work) = &mut self.state {
            let result = work.await;
            self.state = self.state_after(result);
        }
    }
}

/// Writes `bytes`. Blocks.
pub(super) fn write(open: &OpenFile, bytes: &[u8], position: Position) -> Result<usize, WriteError> {
    let file: &File = &open.file;
    match &open.folder.ledger {
        Some(ledger) => ledger.write(file, bytes, position),
        // The callers checked that the folder is writable.
        None => Err(ErrorCode::NotPermitted.into()),
    }
}

/// Returns the error code for an error of a [`FileOutputStream`].
pub(super) fn to_error_code(error: &wasmtime::Error) -> Option<ErrorCode> {
    match error.downcast_ref() {
        Some(WriteFailure(code)) => Some(*code),
        None => error.is::<QuotaExceeded>().then_some(ErrorCode::Quota),
    }
}
