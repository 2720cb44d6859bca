//! Results that arrive after their function has returned: streams and futures, which are read to their end.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use fumehood_core::call::limits::Limits;
use tokio::sync::oneshot;
use wasmtime::component::{FutureConsumer, Lift, Source, StreamConsumer, StreamReader, StreamResult, Val};
use wasmtime::{Store, StoreContextMut};

use super::input::Returned;
use super::outcome;
use super::tool_call::raw_bytes;
use crate::load::dialect::typed::DeferredResult;
use crate::wasi::CallState;
use crate::wasi::bindings::fumehood::tool::types;

/// The error of a call whose stream has more than a result may have.
#[derive(Debug, thiserror::Error)]
#[error("the stream has more than a result may have")]
pub(crate) struct StreamTooLarge;

/// Maximum number of texts of a stream. Each costs the host more than its bytes.
const MAX_TEXTS: usize = 131_072;

/// An item of the stream that `call` returns from version 0.2 of the contract on.
pub(super) type PartItem = Result<types::Content, types::Failure>;

/// An item of a stream or future.
trait Item: Lift + Send + Sync + 'static {
    /// Returns its size in bytes.
    fn size(&self) -> usize;
}

impl Item for u8 {
    fn size(&self) -> usize {
        1
    }
}

impl Item for String {
    fn size(&self) -> usize {
        self.len()
    }
}

/// The items that have arrived.
struct Inbox<T> {
    items: Vec<T>,
    /// Bytes that may still arrive.
    bytes_left: usize,
}

impl<T: Item> Inbox<T> {
    fn add(&mut self, items: Vec<T>) -> Result<(), StreamTooLarge> {
        let bytes = items.iter().map(Item::size).sum();
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(StreamTooLarge)?;
        self.items.extend(items);
        Ok(())
    }
}

/// A reader that keeps what it reads. The engine drops it at the end of the stream or future.
struct Collector<T> {
    received: Arc<Mutex<Inbox<T>>>,
    /// Maximum number of items, so that one more is an error.
    max_items: usize,
    _end: oneshot::Sender<()>,
}

impl<T: Item> Collector<T> {
    /// Creates a reader of at most `bytes` bytes. The receiver completes at the end.
    fn new(bytes: usize, max_items: usize) -> (Self, Arc<Mutex<Inbox<T>>>, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        let received = Arc::new(Mutex::new(Inbox { items: Vec::new(), bytes_left: bytes }));
        (Self { received: Arc::clone(&received), max_items, _end: end }, received, ended)
    }
}

impl<T: Item> StreamConsumer<CallState> for Collector<T> {
    type Item = T;

    fn poll_consume(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        mut store: StoreContextMut<'_, CallState>,
        mut source: Source<'_, T>,
        _finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let written = source.remaining(&mut store);
        if written > self.max_items.saturating_sub(received.items.len()) {
            return Poll::Ready(Err(StreamTooLarge.into()));
        }
        let mut items = Vec::with_capacity(written);
        let read = source.read(&mut store, &mut items).and_then(|()| Ok(received.add(items)?));
        Poll::Ready(read.map(|()| StreamResult::Completed))
    }
}

impl FutureConsumer<CallState> for Collector<String> {
    type Item = String;

    fn poll_consume(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        mut store: StoreContextMut<'_, CallState>,
        mut source: Source<'_, String>,
        _finish: bool,
    ) -> Poll<wasmtime::Result<()>> {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let mut item = None;
        let read = source.read(&mut store, &mut item);
        Poll::Ready(read.and_then(|()| Ok(received.add(item.into_iter().collect())?)))
    }
}

/// Replaces a stream or future among the results by what arrives through it, within the limit on results.
///
/// The tasks of the guest run until its end. If they wait for what never happens, the deadline of the call ends them.
///
/// # Errors
/// If the guest fails, writes too much, or drops a future without a value.
pub(super) async fn read(
    store: &mut Store<CallState>,
    deferred: DeferredResult,
    results: &mut [Val],
    limits: &Limits,
) -> wasmtime::Result<()> {
    let Some(slot) = find_slot(results) else { return Ok(()) };
    let bytes = limits.output;
    let value = match (std::mem::replace(slot, Val::Bool(false)), deferred) {
        (Val::Stream(stream), DeferredResult::Bytes) => {
            let (collector, received, ended) = Collector::<u8>::new(bytes, bytes);
            stream.try_into_stream_reader::<u8>()?.pipe(&mut *store, collector)?;
            wait(store, ended).await?;
            Val::String(String::from_utf8(take(&received)).map_err(|_| invalid("the stream is not UTF-8"))?)
        }
        (Val::Stream(stream), DeferredResult::Texts) => {
            let (collector, received, ended) = Collector::<String>::new(bytes, MAX_TEXTS);
            stream.try_into_stream_reader::<String>()?.pipe(&mut *store, collector)?;
            wait(store, ended).await?;
            Val::List(take(&received).into_iter().map(Val::String).collect())
        }
        (Val::Future(future), DeferredResult::Text) => {
            let (collector, received, ended) = Collector::<String>::new(bytes, 1);
            future.try_into_future_reader::<String>()?.pipe(&mut *store, collector)?;
            wait(store, ended).await?;
            Val::String(take(&received).pop().ok_or_else(|| invalid("the future has no value"))?)
        }
        (other, _) => other,
    };
    *slot = value;
    Ok(())
}

/// The parts of a result that have arrived, or the failure that ended them.
struct PartInbox {
    returned: Returned,
    /// Size of the parts in bytes.
    bytes: usize,
}

impl PartInbox {
    fn add(&mut self, part: types::Content, limits: &Limits) -> Result<(), StreamTooLarge> {
        let Ok(parts) = &mut self.returned else { return Ok(()) };
        self.bytes = self.bytes.saturating_add(raw_bytes(&part));
        parts.push(part);
        outcome::check_size(parts.len(), self.bytes, limits).map_err(|_too_large| StreamTooLarge)
    }
}

/// A reader of the parts of a result, which also sends them to the observer of the call.
struct PartCollector {
    received: Arc<Mutex<PartInbox>>,
    limits: Limits,
    _end: oneshot::Sender<()>,
}

impl PartCollector {
    /// Reads all parts that were written, up to a failure.
    fn read(
        &self,
        store: &mut StoreContextMut<'_, CallState>,
        source: &mut Source<'_, PartItem>,
    ) -> wasmtime::Result<StreamResult> {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        // One by one, so that each is counted before the next one is copied.
        while source.remaining(&mut *store) > 0 {
            let mut item = None;
            source.read(&mut *store, &mut item)?;
            match item {
                Some(Ok(part)) => {
                    store.data_mut().journal.show_part(&part);
                    received.add(part, &self.limits)?;
                }
                Some(Err(failure)) => {
                    received.returned = Err(failure);
                    return Ok(StreamResult::Dropped);
                }
                None => break,
            }
        }
        Ok(StreamResult::Completed)
    }
}

impl StreamConsumer<CallState> for PartCollector {
    type Item = PartItem;

    fn poll_consume(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        mut store: StoreContextMut<'_, CallState>,
        mut source: Source<'_, PartItem>,
        _finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        Poll::Ready(self.read(&mut store, &mut source))
    }
}

/// Reads the parts of a result to their end, within the limit on results. See [`read`].
///
/// # Errors
/// If the guest fails, or writes too much.
pub(super) async fn read_parts(
    store: &mut Store<CallState>,
    stream: StreamReader<PartItem>,
    limits: &Limits,
) -> wasmtime::Result<Returned> {
    let (end, ended) = oneshot::channel();
    let received = Arc::new(Mutex::new(PartInbox { returned: Ok(Vec::new()), bytes: 0 }));
    let collector = PartCollector { received: Arc::clone(&received), limits: *limits, _end: end };
    stream.pipe(&mut *store, collector)?;
    wait(store, ended).await?;
    let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::replace(&mut received.returned, Ok(Vec::new())))
}

/// Returns the value that is a stream or future: the result itself, or the `ok` of a `result`.
fn find_slot(results: &mut [Val]) -> Option<&mut Val> {
    match results.first_mut()? {
        Val::Result(Ok(Some(value))) => Some(value),
        Val::Result(_) => None,
        value => Some(value),
    }
}

/// Runs the tasks of the guest until a reader is dropped.
async fn wait(store: &mut Store<CallState>, ended: oneshot::Receiver<()>) -> wasmtime::Result<()> {
    store.run_concurrent(async |_| ended.await).await.map(|_dropped| ())
}

fn take<T>(received: &Mutex<Inbox<T>>) -> Vec<T> {
    std::mem::take(&mut received.lock().unwrap_or_else(PoisonError::into_inner).items)
}

fn invalid(reason: &'static str) -> wasmtime::Error {
    wasmtime::Error::msg(reason)
}
