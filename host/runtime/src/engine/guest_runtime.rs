//! The executor of guests: the first slice runs on the caller's thread, the rest on threads of their own.
//!
//! Most calls are over in microseconds, and handing them to another thread and back would cost more than they do. A
//! call that does not end within its first slice moves to a runtime that runs nothing but guests. A slice is a few
//! milliseconds, or one bulk instruction over at most 64 MiB; a guest that spins can therefore delay the caller's
//! timers, sockets and other tasks only that long.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// Maximum number of threads for blocking work on behalf of guests.
const MAX_BLOCKING_THREADS: usize = 32;
/// Stack of one thread, in bytes. Guests run on stacks of their own; these are for compiling, and for host functions
/// between slices.
const THREAD_STACK_BYTES: usize = 2 << 20;

/// A tokio runtime that runs nothing but guests and blocking work on their behalf.
pub(crate) struct GuestRuntime {
    handle: Handle,
    /// Taken when it is shut down.
    runtime: Mutex<Option<Runtime>>,
}

/// The thread that runs the first slice of a future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstSlice {
    /// The caller's thread.
    Here,
    /// The caller's thread, with this runtime's timers and blocking threads available. That costs a little, and only
    /// host functions of WASI need it.
    HereWithReactor,
    /// A thread of this runtime, like all other slices.
    Elsewhere,
}

/// A handle to the threads for blocking work. It does not keep the runtime alive.
#[derive(Clone)]
pub(crate) struct Blocking(Handle);

impl Blocking {
    /// Runs `work` on a thread for blocking work. If the future is dropped, work that has begun runs to its end.
    ///
    /// # Errors
    /// If the runtime is shut down or the work panicked.
    pub(crate) async fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, Lost> {
        AbortOnDrop(self.0.spawn_blocking(work)).await
    }
}

/// The error of a future that did not complete.
#[derive(Debug)]
pub(crate) enum Lost {
    /// A panic in a host function, with its message.
    Panicked(String),
    /// A shutdown of the runtime.
    ShutDown,
}

/// The error of an operation that did not complete within its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time limit was reached")]
pub(crate) struct Elapsed;

impl GuestRuntime {
    /// Starts a runtime of `threads` threads.
    ///
    /// # Errors
    /// If the system refuses to start them.
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(MAX_BLOCKING_THREADS)
            .thread_stack_size(THREAD_STACK_BYTES)
            .thread_name("fumehood-guest")
            // A slice of a guest is as long as many polls of an ordinary task. Without checking the timers after each
            // of them, the deadline of a guest that sleeps would fire late when others spin.
            .event_interval(1)
            .global_queue_interval(1)
            .enable_time()
            .enable_io()
            .build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Mutex::new(Some(runtime)) })
    }

    /// Runs `future` to completion. Dropping the returned future ends it after its current slice at the latest.
    ///
    /// # Errors
    /// If the runtime is shut down or the future panicked.
    pub(crate) async fn run<F>(&self, slice: FirstSlice, mut future: Pin<Box<F>>) -> Result<F::Output, Lost>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        if slice == FirstSlice::Elsewhere {
            return AbortOnDrop(self.handle.spawn(future)).await;
        }
        let entered = (slice == FirstSlice::HereWithReactor).then(|| self.handle.enter());
        let first = catch_unwind(AssertUnwindSafe(|| poll_once(future.as_mut())));
        drop(entered);
        match first {
            Ok(Poll::Ready(output)) => Ok(output),
            Ok(Poll::Pending) => AbortOnDrop(self.handle.spawn(future)).await,
            Err(panic) => Err(Lost::Panicked(panic_message(panic.as_ref()))),
        }
    }

    /// Spawns `future` on these threads.
    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Runs `future` to completion on this thread. For threads that run nothing else.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// Runs blocking work, such as compiling, on a thread for it. See [`Blocking::run`].
    pub(crate) async fn block<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, Lost> {
        self.blocking().run(work).await
    }

    /// Returns a handle to the threads for blocking work.
    pub(crate) fn blocking(&self) -> Blocking {
        Blocking(self.handle.clone())
    }

    /// Like [`Self::block`], waiting for at most `time`. Work that has begun by then runs to its end.
    ///
    /// # Errors
    /// If the time has elapsed.
    pub(crate) async fn block_within<R: Send + 'static>(
        &self,
        time: Duration,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Result<R, Lost>, Elapsed> {
        self.within(time, self.block(work)).await
    }

    /// Requires `future` to complete within `time`. Works on any executor.
    ///
    /// # Errors
    /// If the time has elapsed.
    pub(crate) async fn within<F: Future>(&self, time: Duration, future: F) -> Result<F::Output, Elapsed> {
        let mut working = std::pin::pin!(future);
        let mut waiting = std::pin::pin!(self.sleep(time));
        std::future::poll_fn(|cx| match working.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Ok(ended)),
            Poll::Pending => waiting.as_mut().poll(cx).map(|_| Err(Elapsed)),
        })
        .await
    }

    /// Waits for `time`. Works on any executor.
    ///
    /// # Errors
    /// If the runtime is shut down.
    pub(crate) async fn sleep(&self, time: Duration) -> Result<(), Lost> {
        // Created inside the task: a timer belongs to the runtime that it is created on, and the caller may have none.
        AbortOnDrop(self.handle.spawn(async move { tokio::time::sleep(time).await })).await
    }

    /// Ends every future that is still running, each after its current slice, without waiting for any.
    pub(crate) fn shutdown(&self) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

impl Drop for GuestRuntime {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Polls a future once with a waker that does nothing: a pending future is polled again right after it has moved.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Yields once, so that the executor can move the future to another thread.
pub(crate) async fn move_over() {
    let mut moved = false;
    std::future::poll_fn(|cx| {
        if moved {
            return Poll::Ready(());
        }
        moved = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A task that is aborted when its handle is dropped.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, Lost>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|error| match error.try_into_panic() {
            Ok(panic) => Lost::Panicked(panic_message(panic.as_ref())),
            Err(_cancelled) => Lost::ShutDown,
        })
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
