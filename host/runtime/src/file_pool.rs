//! Threads for file work, and for nothing else: a file system that hangs holds up neither guests nor compiling, and
//! nobody waits for it when the host shuts down.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// Pieces of file work that run at once. More wait in line, until their call's deadline.
const THREADS: usize = 16;
/// How many files all calls together may hold open, where the system allows that: half of what the process may.
const MOST_OPEN: usize = 8192;
const LEAST_OPEN: usize = 64;

/// Threads for file work, started when they are first needed. Clones are the same threads.
#[derive(Clone)]
pub(crate) struct FilePool(Arc<Inner>);

struct Inner {
    handle: Handle,
    /// Taken when it is shut down.
    runtime: Mutex<Option<Runtime>>,
    open: AtomicUsize,
    most_open: usize,
}

/// The work was not done, because the pool is shut down or it panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

/// The right to hold one more file open. It is given back when dropped.
pub(crate) struct OpenSlot(FilePool);

impl FilePool {
    /// Nobody drives this runtime: only its blocking threads are used, and they run by themselves.
    pub(crate) fn start() -> std::io::Result<Self> {
        let runtime =
            Builder::new_current_thread().max_blocking_threads(THREADS).thread_name("fumehood-files").build()?;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let half = usize::try_from(limit.unwrap_or(u64::MAX) / 2).unwrap_or(MOST_OPEN);
        Ok(Self(Arc::new(Inner {
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
            open: AtomicUsize::new(0),
            most_open: half.clamp(LEAST_OPEN, MOST_OPEN),
        })))
    }

    /// Runs a piece of work and waits for it. If nobody waits any more, work that has not begun never does.
    pub(crate) fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Work<R> {
        Work(self.0.handle.spawn_blocking(work))
    }

    /// Runs a piece of work that nobody waits for.
    pub(crate) fn detach(&self, work: impl FnOnce() + Send + 'static) {
        drop(self.0.handle.spawn_blocking(work));
    }

    /// Lets whatever `future` hands to "the" blocking threads run on these.
    pub(crate) async fn within<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            let _entered = self.0.handle.enter();
            future.as_mut().poll(cx)
        })
        .await
    }

    /// The same for what is done at once.
    pub(crate) fn entered<R>(&self, f: impl FnOnce() -> R) -> R {
        let _entered = self.0.handle.enter();
        f()
    }

    /// The right to hold one more file open, if all calls together do not hold too many already.
    pub(crate) fn open_slot(&self) -> Option<OpenSlot> {
        let slot = OpenSlot(self.clone());
        // Counted first and looked at then, so that no two get the last one.
        let before = self.0.open.fetch_add(1, Ordering::Relaxed);
        (before < self.0.most_open).then_some(slot)
    }

    /// Waits for nothing: what hangs in the kernel goes on hanging there, and everything else is over at once.
    pub(crate) fn shut_down(&self) {
        let runtime = self.0.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for OpenSlot {
    fn drop(&mut self) {
        self.0.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A piece of work that somebody waits for.
pub(crate) struct Work<R>(JoinHandle<R>);

impl<R> Future for Work<R> {
    type Output = Result<R, Gone>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|_| Gone)
    }
}

impl<R> Drop for Work<R> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How long the opening of granted folders may take, and the removal of scratch space.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_hangs_does_not_hold_up_the_end() {
        let pool = FilePool::start().unwrap();
        let (release, hold) = std::sync::mpsc::channel::<()>();
        pool.detach(move || {
            let _released = hold.recv();
        });
        assert_eq!(pool.run(|| 7).await, Ok(7));
        let started = std::time::Instant::now();
        pool.shut_down();
        assert!(started.elapsed() < Duration::from_secs(1));
        assert_eq!(pool.run(|| 7).await, Err(Gone), "nothing runs after the end");
        drop(release);
    }

    #[test]
    fn no_more_files_are_open_than_the_process_may_have() {
        let pool = FilePool::start().unwrap();
        let most = pool.0.most_open;
        let mut slots: Vec<_> = (0..most).map(|_| pool.open_slot().unwrap()).collect();
        assert!(pool.open_slot().is_none());
        slots.pop();
        assert!(pool.open_slot().is_some());
    }
}
