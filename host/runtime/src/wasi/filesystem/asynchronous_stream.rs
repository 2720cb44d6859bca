//! Streams of files and folders for WASI 0.3, made of those for WASI 0.2.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::oneshot;
use wasmtime::StoreContextMut;
use wasmtime::component::{Destination, Resource, Source, StreamConsumer, StreamProducer, StreamResult, VecBuffer};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::types::{HostDescriptor as _, HostDirectoryEntryStream as _};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsResult, ReaddirIterator, StreamError};
use wasmtime_wasi::p3::bindings::filesystem::types::{DirectoryEntry, ErrorCode};

use super::asynchronous::{to_code, to_type};
use super::call_files::StreamSlot;
use super::lent::LentFiles;
use super::stream;
use crate::wasi::CallState;

/// Maximum number of bytes of a file that one step reads or writes.
const MAX_STEP_BYTES: usize = 64 << 10;
/// Maximum number of names that one step lists.
const MAX_STEP_NAMES: usize = 128;

/// A step of a stream, which returns what it worked on.
type Step<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// The receiver of how a stream ended.
pub(super) type EndReceiver = oneshot::Receiver<Result<(), ErrorCode>>;

/// The sender of how a stream ended. It sends success when it is dropped.
struct End(Option<oneshot::Sender<Result<(), ErrorCode>>>);

impl End {
    fn new() -> (Self, EndReceiver) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(sender)), receiver)
    }

    fn fail(&mut self, code: ErrorCode) {
        if let Some(sender) = self.0.take() {
            let _nobody_reads = sender.send(Err(code));
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            let _nobody_reads = sender.send(Ok(()));
        }
    }
}

/// Returns the error code of a failed stream.
///
/// # Errors
/// If the guest is to trap.
fn to_stream_code(error: StreamError) -> wasmtime::Result<ErrorCode> {
    match error {
        StreamError::Closed => Ok(ErrorCode::Io),
        StreamError::LastOperationFailed(error) => {
            let code = stream::to_error_code(&error).or_else(|| Some(error.downcast_ref::<std::io::Error>()?.into()));
            Ok(code.map_or(ErrorCode::Io, to_code))
        }
        StreamError::Trap(error) => Err(error),
    }
}

/// A file that is read.
pub(super) struct FileReader {
    /// The next step; `None` after the end.
    step: Option<Step<(DynInputStream, Result<Bytes, StreamError>)>>,
    end: End,
}

impl FileReader {
    pub(super) fn new(file: DynInputStream) -> (Self, EndReceiver) {
        let (end, receiver) = End::new();
        (Self { step: Some(Box::pin(read(file))), end }, receiver)
    }
}

impl StreamProducer<CallState> for FileReader {
    type Item = u8;
    type Buffer = VecBuffer<u8>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut store: StoreContextMut<'a, CallState>,
        mut destination: Destination<'a, u8, VecBuffer<u8>>,
        _finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        if destination.remaining(&mut store) == Some(0) {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        let Some(step) = &mut self.step else { return Poll::Ready(Ok(StreamResult::Dropped)) };
        let (file, bytes) = ready!(step.as_mut().poll(cx));
        match bytes {
            Ok(bytes) => {
                self.step = Some(Box::pin(read(file)));
                destination.set_buffer(Vec::from(bytes).into());
                Poll::Ready(Ok(StreamResult::Completed))
            }
            Err(error) => {
                self.step = None;
                // The end of the file.
                if !matches!(error, StreamError::Closed) {
                    self.end.fail(to_stream_code(error)?);
                }
                Poll::Ready(Ok(StreamResult::Dropped))
            }
        }
    }
}

/// Reads the next bytes, at least one.
async fn read(mut file: DynInputStream) -> (DynInputStream, Result<Bytes, StreamError>) {
    loop {
        file.ready().await;
        match file.read(MAX_STEP_BYTES) {
            Ok(bytes) if bytes.is_empty() => {}
            read => return (file, read),
        }
    }
}

/// A file that is written.
pub(super) struct FileWriter {
    state: WriterState,
    end: End,
}

enum WriterState {
    Idle(DynOutputStream),
    /// With the number of bytes.
    Writing(usize, Step<(DynOutputStream, Result<(), StreamError>)>),
    Ended,
}

impl FileWriter {
    pub(super) fn new(file: DynOutputStream) -> (Self, EndReceiver) {
        let (end, receiver) = End::new();
        (Self { state: WriterState::Idle(file), end }, receiver)
    }
}

impl StreamConsumer<CallState> for FileWriter {
    type Item = u8;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        store: StoreContextMut<'_, CallState>,
        source: Source<'_, u8>,
        _finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let mut source = source.as_direct(store);
        match mem::replace(&mut self.state, WriterState::Ended) {
            WriterState::Idle(file) => {
                let bytes: Vec<u8> = source.remaining().iter().take(MAX_STEP_BYTES).copied().collect();
                if bytes.is_empty() {
                    self.state = WriterState::Idle(file);
                    return Poll::Ready(Ok(StreamResult::Completed));
                }
                self.state = WriterState::Writing(bytes.len(), Box::pin(write(file, bytes.into())));
            }
            other => self.state = other,
        }
        let WriterState::Writing(count, step) = &mut self.state else {
            return Poll::Ready(Ok(StreamResult::Dropped));
        };
        let count = *count;
        let (file, written) = ready!(step.as_mut().poll(cx));
        match written {
            Ok(()) => {
                // More than there is would panic.
                let count = count.min(source.remaining().len());
                source.mark_read(count);
                self.state = WriterState::Idle(file);
                Poll::Ready(Ok(StreamResult::Completed))
            }
            Err(error) => {
                self.state = WriterState::Ended;
                self.end.fail(to_stream_code(error)?);
                Poll::Ready(Ok(StreamResult::Dropped))
            }
        }
    }
}

async fn write(mut file: DynOutputStream, bytes: Bytes) -> (DynOutputStream, Result<(), StreamError>) {
    let written = file.blocking_write_and_flush(bytes).await;
    (file, written)
}

/// A folder that is listed.
pub(super) struct FolderLister {
    /// The next step; `None` after the end.
    step: Option<Step<(Listing, Batch)>>,
    end: End,
    /// The memory of a batch of names counts as the buffers of two streams.
    _slots: [StreamSlot; 2],
}

/// A listing, from its folder on.
enum Listing {
    New(LentFiles, Resource<Descriptor>),
    Open(LentFiles, Resource<ReaddirIterator>),
    Ended,
}

/// The names of a step, and the error after them.
struct Batch {
    names: Vec<DirectoryEntry>,
    failure: Option<wasmtime::Result<ErrorCode>>,
}

impl FolderLister {
    pub(super) fn new(lent: LentFiles, folder: Resource<Descriptor>, slots: [StreamSlot; 2]) -> (Self, EndReceiver) {
        let (end, receiver) = End::new();
        (Self { step: Some(Box::pin(Listing::New(lent, folder).read())), end, _slots: slots }, receiver)
    }
}

impl StreamProducer<CallState> for FolderLister {
    type Item = DirectoryEntry;
    type Buffer = VecBuffer<DirectoryEntry>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut store: StoreContextMut<'a, CallState>,
        mut destination: Destination<'a, DirectoryEntry, VecBuffer<DirectoryEntry>>,
        _finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        if destination.remaining(&mut store) == Some(0) {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        let Some(step) = &mut self.step else { return Poll::Ready(Ok(StreamResult::Dropped)) };
        let (listing, Batch { names, failure }) = ready!(step.as_mut().poll(cx));
        self.step = match listing {
            Listing::Ended => None,
            more => Some(Box::pin(more.read())),
        };
        if let Some(failure) = failure {
            self.end.fail(failure?);
        }
        if names.is_empty() {
            return Poll::Ready(Ok(StreamResult::Dropped));
        }
        destination.set_buffer(names.into());
        Poll::Ready(Ok(StreamResult::Completed))
    }
}

impl Listing {
    /// Reads the next names. It has ended if there are no more, or after an error.
    async fn read(self) -> (Self, Batch) {
        let mut names = Vec::new();
        let failure = match self.read_into(&mut names).await {
            Ok(Some(listing)) => return (listing, Batch { names, failure: None }),
            Ok(None) => None,
            Err(error) => Some(error.downcast().map(to_code)),
        };
        (Self::Ended, Batch { names, failure })
    }

    async fn read_into(self, names: &mut Vec<DirectoryEntry>) -> FsResult<Option<Self>> {
        let (mut lent, entries) = match self {
            Self::New(mut lent, folder) => {
                let entries = lent.view().read_directory(folder).await?;
                (lent, entries)
            }
            Self::Open(lent, entries) => (lent, entries),
            Self::Ended => return Ok(None),
        };
        while names.len() < MAX_STEP_NAMES {
            let handle = Resource::new_own(entries.rep());
            let Some(entry) = lent.view().read_directory_entry(handle).await? else { return Ok(None) };
            names.push(DirectoryEntry { type_: to_type(entry.type_), name: entry.name });
        }
        Ok(Some(Self::Open(lent, entries)))
    }
}
