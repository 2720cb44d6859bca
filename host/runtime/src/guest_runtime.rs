//! Where guests run: the first slice on the caller's thread, the rest on threads of their own.
//!
//! Most calls are over in microseconds, and handing them to another thread and back would cost more than they do. A
//! call that does not end within its first slice, a few milliseconds at most, moves to a runtime that serves nothing
//! but guests. A guest that spins can therefore never hold up the caller's timers, sockets or other tasks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// How many threads may wait for blocking work on behalf of guests.
const BLOCKING_THREADS: usize = 32;
/// Host functions run on these stacks only outside fibers; they need little.
const THREAD_STACK: usize = 1 << 20;

pub(crate) struct GuestRuntime {
    handle: Handle,
    /// Taken when it is shut down.
    runtime: Mutex<Option<Runtime>>,
}

/// A future that will not come to its end.
#[derive(Debug)]
pub(crate) enum Lost {
    /// A host function panicked; the text says with what.
    Panicked(String),
    /// The runtime was shut down under it.
    ShutDown,
}

impl GuestRuntime {
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_stack_size(THREAD_STACK)
            .thread_name("fumehood-guest")
            .enable_time()
            .build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Mutex::new(Some(runtime)) })
    }

    /// Runs `future` to its end. Dropping the returned future ends it at its next slice at the latest.
    ///
    /// `reactor`: whether the future may use timers or blocking work during its first slice. It costs a little, and
    /// only host functions of WASI need it.
    pub(crate) async fn run<F>(&self, reactor: bool, mut future: Pin<Box<F>>) -> Result<F::Output, Lost>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let entered = reactor.then(|| self.handle.enter());
        let first = catch_unwind(AssertUnwindSafe(|| poll_once(future.as_mut())));
        drop(entered);
        match first {
            Ok(Poll::Ready(output)) => Ok(output),
            Ok(Poll::Pending) => EndOnDrop(self.handle.spawn(future)).await,
            Err(panic) => Err(Lost::Panicked(panic_text(panic.as_ref()))),
        }
    }

    /// Runs blocking work, such as compiling, off every async thread.
    pub(crate) async fn block<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, Lost> {
        EndOnDrop(self.handle.spawn_blocking(work)).await
    }

    /// A pause that works on any executor.
    pub(crate) async fn sleep(&self, time: Duration) -> Result<(), Lost> {
        EndOnDrop(self.handle.spawn(tokio::time::sleep(time))).await
    }

    /// Ends every future that is still running, each at its next slice, without waiting for any.
    pub(crate) fn shut_down(&self) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

impl Drop for GuestRuntime {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// The waker does nothing: whatever is pending is polled again right after it has moved.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets whoever polls decide where the rest runs: pending once, then ready.
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

/// A task that ends when nobody waits for it any more.
struct EndOnDrop<T>(JoinHandle<T>);

impl<T> Future for EndOnDrop<T> {
    type Output = Result<T, Lost>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|error| match error.try_into_panic() {
            Ok(panic) => Lost::Panicked(panic_text(panic.as_ref())),
            Err(_cancelled) => Lost::ShutDown,
        })
    }
}

impl<T> Drop for EndOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
