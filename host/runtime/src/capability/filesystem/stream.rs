//! Streams from and to files.

use std::fs::File;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{DynInputStream, InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::call::{Open, Slot, StreamSlot};
use super::ledger::{Position, Unwritten};
use super::refuse::Attempt;
use crate::file_pool::{FilePool, Gone, Work};

/// The most that is written at once, in bytes.
const PIECE: usize = 64 << 10;

/// wasmtime's own stream from a file, with its work on our threads.
pub(super) struct FromFile {
    inner: DynInputStream,
    pool: FilePool,
    _slot: Option<Arc<Slot>>,
    _stream: StreamSlot,
}

impl FromFile {
    pub(super) fn new(inner: DynInputStream, pool: &FilePool, open: &Open, stream: StreamSlot) -> Self {
        Self { inner, pool: pool.clone(), _slot: open.slot.clone(), _stream: stream }
    }
}

#[async_trait]
impl InputStream for FromFile {
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
impl Pollable for FromFile {
    async fn ready(&mut self) {
        let Self { inner, pool, .. } = self;
        pool.within(inner.ready()).await;
    }
}

/// A stream to a file, every piece of which is charged to the folder's account before it is written.
pub(super) struct ToFile {
    state: State,
    position: Position,
    open: Open,
    pool: FilePool,
    attempt: Attempt,
    _stream: StreamSlot,
}

enum State {
    Ready,
    Writing(Work<Result<usize, Unwritten>>),
    /// The last piece was not written; the guest is still to be told.
    Failed(StreamError),
    Closed,
}

/// A quota that is used up, as the error of a stream.
#[derive(Debug, thiserror::Error)]
#[error("the quota of the folder is used up")]
pub(super) struct QuotaSpent;

impl ToFile {
    pub(super) fn new(open: Open, position: Position, pool: &FilePool, attempt: Attempt, stream: StreamSlot) -> Self {
        Self { state: State::Ready, position, open, pool: pool.clone(), attempt, _stream: stream }
    }

    /// Takes in how a piece of work ended.
    fn ended(&mut self, ended: Result<Result<usize, Unwritten>, Gone>) -> State {
        match ended {
            Ok(Ok(written)) => {
                if let Position::At(offset) = &mut self.position {
                    *offset = offset.saturating_add(written as u64);
                }
                State::Ready
            }
            Ok(Err(Unwritten::System(error))) => State::Failed(StreamError::LastOperationFailed(error.into())),
            Ok(Err(Unwritten::QuotaExceeded(spent))) => {
                let _code = self.attempt.spent(spent);
                State::Failed(StreamError::LastOperationFailed(QuotaSpent.into()))
            }
            Err(Gone) => State::Closed,
        }
    }

    /// An error that is still to be told, told once.
    fn told(&mut self) -> StreamResult<()> {
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
impl OutputStream for ToFile {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        // More at once than was permitted would be held in the host, beside the guest's memory.
        if !matches!(self.state, State::Ready) || bytes.len() > PIECE {
            self.told()?;
            return Err(StreamError::trap("a write that `check_write` did not permit"));
        }
        if !bytes.is_empty() {
            let (open, position) = (self.open.clone(), self.position);
            self.state = State::Writing(self.pool.run(move || write(&open, &bytes, position)));
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.told()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.told()?;
        Ok(if matches!(self.state, State::Writing(_)) { 0 } else { PIECE })
    }

    /// A piece that is being written is written to its end, so that a guest cannot pile them up.
    async fn cancel(&mut self) {
        self.ready().await;
        self.state = State::Closed;
    }
}

#[async_trait]
impl Pollable for ToFile {
    async fn ready(&mut self) {
        if let State::Writing(work) = &mut self.state {
            let ended = work.await;
            self.state = self.ended(ended);
        }
    }
}

/// Writes a piece. Blocks.
pub(super) fn write(open: &Open, bytes: &[u8], position: Position) -> Result<usize, Unwritten> {
    let file: &File = &open.file;
    match &open.folder.ledger {
        Some(ledger) => ledger.write(file, bytes, position),
        // Whoever asks has looked already.
        None => Err(rustix::io::Errno::PERM.into()),
    }
}

/// The code for the error of a stream of ours.
pub(super) fn code_of(error: &wasmtime::Error) -> Option<ErrorCode> {
    error.is::<QuotaSpent>().then_some(ErrorCode::Quota)
}
