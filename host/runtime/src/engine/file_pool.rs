//! Threads that run nothing but file operations.
//!
//! A file system that hangs blocks neither guests nor compiling, and shutting down does not wait for it. Each tool has
//! a few threads of its own, so that it cannot block another tool either.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// Maximum number of the host's own file operations that run at once, such as opening granted folders. Others are
/// queued.
const HOST_THREADS: usize = 16;
/// Maximum number of one tool's file operations that run at once, over all its calls. Others are queued until their
/// call's deadline.
const TOOL_THREADS: usize = 4;
/// Maximum number of files that all calls together may hold open. It is lower where half of what the process may open
/// is less.
const MAX_OPEN_FILES: usize = 8192;
/// Lower bound of that number, however few files the process may open.
const MIN_OPEN_FILES: usize = 64;

/// A pool of threads for file operations, started when they are first needed. Clones share the threads.
#[derive(Clone)]
pub(crate) struct FilePool {
    threads: Arc<Threads>,
    shared: Arc<PoolState>,
}

/// The threads of one pool. Those of a tool end with its last call after it was unloaded.
struct Threads {
    handle: Handle,
    /// Taken when it is shut down.
    runtime: Mutex<Option<Runtime>>,
}

/// State that all pools of one host share.
struct PoolState {
    open: AtomicUsize,
    max_open: usize,
    /// The host's own threads. They outlive those of its tools.
    host: Arc<Threads>,
    tools: Mutex<Tools>,
}

/// The threads of all tools, to be shut down with the host.
#[derive(Default)]
struct Tools {
    threads: Vec<Weak<Threads>>,
    is_shut_down: bool,
}

/// The error of an operation that was not completed, because the pool is shut down or the operation panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

/// A permit to hold one more file open. It is returned when dropped.
pub(crate) struct OpenSlot(FilePool);

impl Threads {
    /// Builds a runtime that is never driven: only its blocking threads are used, and they run by themselves.
    fn start(max_threads: usize) -> std::io::Result<Self> {
        let builder = &mut Builder::new_current_thread();
        let runtime = builder.max_blocking_threads(max_threads).thread_name("fumehood-files").build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Mutex::new(Some(runtime)) })
    }

    fn shutdown(&self) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl FilePool {
    /// Creates the pool of a host.
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub(crate) fn start() -> std::io::Result<Self> {
        let threads = Arc::new(Threads::start(HOST_THREADS)?);
        let limit = fumehood_platform::limits::max_open_files();
        let half = usize::try_from(limit.unwrap_or(u64::MAX) / 2).unwrap_or(MAX_OPEN_FILES);
        let shared = PoolState {
            open: AtomicUsize::new(0),
            max_open: half.clamp(MIN_OPEN_FILES, MAX_OPEN_FILES),
            host: Arc::clone(&threads),
            tools: Mutex::default(),
        };
        Ok(Self { threads, shared: Arc::new(shared) })
    }

    /// Creates a pool for one tool alone, with at most [`TOOL_THREADS`] threads: a file system that hangs blocks only
    /// those. Open files are still counted for all tools together.
    ///
    /// # Errors
    /// If the system has no memory for them.
    pub(crate) fn of_tool(&self) -> std::io::Result<Self> {
        let threads = Arc::new(Threads::start(TOOL_THREADS)?);
        let mut tools = self.shared.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if tools.is_shut_down {
            threads.shutdown();
        }
        tools.threads.retain(|threads| threads.strong_count() > 0);
        tools.threads.push(Arc::downgrade(&threads));
        drop(tools);
        Ok(Self { threads, shared: Arc::clone(&self.shared) })
    }

    /// Queues an operation and returns a future of its result. If the future is dropped before the operation has begun,
    /// it is never run.
    pub(crate) fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Work<R> {
        Work(self.threads.handle.spawn_blocking(work))
    }

    /// Runs an operation without waiting for it, on the host's own threads: the tool's may end before it is done.
    pub(crate) fn detach(&self, work: impl FnOnce() + Send + 'static) {
        drop(self.shared.host.handle.spawn_blocking(work));
    }

    /// Polls `future` with this pool as the current runtime, so that its calls of `spawn_blocking` use these threads.
    pub(crate) async fn within<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            let _entered = self.threads.handle.enter();
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Like [`Self::within`], for a function that does not wait.
    pub(crate) fn entered<R>(&self, f: impl FnOnce() -> R) -> R {
        let _entered = self.threads.handle.enter();
        f()
    }

    /// Reserves one more open file; `None` if all calls together hold too many already.
    pub(crate) fn open_slot(&self) -> Option<OpenSlot> {
        let slot = OpenSlot(self.clone());
        // Counted before the comparison, so that no two callers get the last slot.
        let before = self.shared.open.fetch_add(1, Ordering::Relaxed);
        (before < self.shared.max_open).then_some(slot)
    }

    /// Shuts down all pools of the host without waiting. Operations that hang in the kernel stay there; everything else
    /// ends at once.
    pub(crate) fn shutdown(&self) {
        let mut tools = self.shared.tools.lock().unwrap_or_else(PoisonError::into_inner);
        tools.is_shut_down = true;
        let of_tools = std::mem::take(&mut tools.threads);
        drop(tools);
        of_tools.iter().filter_map(Weak::upgrade).for_each(|threads| threads.shutdown());
        self.shared.host.shutdown();
    }
}

impl Drop for OpenSlot {
    fn drop(&mut self) {
        self.0.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The future of a queued operation.
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

/// Maximum time for opening granted folders.
pub(crate) const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn shutdown_does_not_wait_for_hanging_work() {
        let pool = FilePool::start().unwrap();
        let (release, hold) = std::sync::mpsc::channel::<()>();
        pool.detach(move || {
            let _released = hold.recv();
        });
        assert_eq!(pool.run(|| 7).await, Ok(7));
        let started = std::time::Instant::now();
        pool.shutdown();
        assert!(started.elapsed() < Duration::from_secs(1));
        assert_eq!(pool.run(|| 7).await, Err(Gone), "nothing runs after the end");
        drop(release);
    }

    #[tokio::test]
    async fn hanging_files_of_one_tool_do_not_block_another() {
        let pool = FilePool::start().unwrap();
        let stuck = pool.of_tool().unwrap();
        let other = pool.of_tool().unwrap();
        let (release, hold) = std::sync::mpsc::channel::<()>();
        let hold = Arc::new(Mutex::new(hold));
        let hung: Vec<_> = (0..64)
            .map(|_| {
                let hold = Arc::clone(&hold);
                stuck.run(move || drop(hold.lock().map(|hold| hold.recv())))
            })
            .collect();
        // What wasmtime's own functions do takes the same threads.
        let delegated = stuck.within(async { tokio::task::spawn_blocking(|| 7).await });
        assert!(tokio::time::timeout(Duration::from_millis(200), delegated).await.is_err());
        let patience = Duration::from_secs(30);
        assert_eq!(tokio::time::timeout(patience, other.run(|| 7)).await, Ok(Ok(7)));
        assert_eq!(tokio::time::timeout(patience, pool.run(|| 7)).await, Ok(Ok(7)));
        let (done, is_done) = tokio::sync::oneshot::channel();
        stuck.detach(move || {
            let _nobody_waits = done.send(());
        });
        assert_eq!(
            tokio::time::timeout(patience, is_done).await,
            Ok(Ok(())),
            "its scratch space is removed all the same"
        );
        pool.shutdown();
        assert_eq!(other.run(|| 7).await, Err(Gone), "it ends with the host");
        assert_eq!(pool.of_tool().unwrap().run(|| 7).await, Err(Gone));
        drop((release, hung));
    }

    #[test]
    fn limits_open_files_over_all_tools() {
        let pool = FilePool::start().unwrap();
        let max = pool.shared.max_open;
        let mut slots: Vec<_> = (0..max).map(|_| pool.open_slot().unwrap()).collect();
        assert!(pool.open_slot().is_none());
        assert!(pool.of_tool().unwrap().open_slot().is_none(), "all tools together");
        slots.pop();
        assert!(pool.open_slot().is_some());
    }
}
