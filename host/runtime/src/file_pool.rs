//! Threads for file work, and for nothing else: a file system that hangs holds up neither guests nor compiling, and
//! nobody waits for it when the host shuts down. Each tool has a few of its own, so that it holds up no other tool either.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// Pieces of the host's own file work that run at once, such as opening granted folders. More wait in line.
const HOST_THREADS: usize = 16;
/// Pieces of file work of one tool that run at once, over all its calls. More wait in line, until their call's deadline.
const TOOL_THREADS: usize = 4;
/// How many files all calls together may hold open, where the system allows that: half of what the process may.
const MOST_OPEN: usize = 8192;
const LEAST_OPEN: usize = 64;

/// Threads for file work, started when they are first needed. Clones are the same threads.
#[derive(Clone)]
pub(crate) struct FilePool {
    threads: Arc<Threads>,
    common: Arc<Common>,
}

/// Some threads. Those of a tool end with its last call after it was unloaded.
struct Threads {
    handle: Handle,
    /// Taken when it is shut down.
    runtime: Mutex<Option<Runtime>>,
}

/// What all pools of one host have in common.
struct Common {
    open: AtomicUsize,
    most_open: usize,
    /// The host's own threads, which outlive those of its tools.
    host: Arc<Threads>,
    tools: Mutex<Tools>,
}

/// The threads of all tools, to be shut down with the host.
#[derive(Default)]
struct Tools {
    threads: Vec<Weak<Threads>>,
    is_shut_down: bool,
}

/// The work was not done, because the pool is shut down or it panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

/// The right to hold one more file open. It is given back when dropped.
pub(crate) struct OpenSlot(FilePool);

impl Threads {
    /// Nobody drives this runtime: only its blocking threads are used, and they run by themselves.
    fn start(most: usize) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().max_blocking_threads(most).thread_name("fumehood-files").build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Mutex::new(Some(runtime)) })
    }

    fn shut_down(&self) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl FilePool {
    /// The threads of a host.
    pub(crate) fn start() -> std::io::Result<Self> {
        let threads = Arc::new(Threads::start(HOST_THREADS)?);
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let half = usize::try_from(limit.unwrap_or(u64::MAX) / 2).unwrap_or(MOST_OPEN);
        let common = Common {
            open: AtomicUsize::new(0),
            most_open: half.clamp(LEAST_OPEN, MOST_OPEN),
            host: Arc::clone(&threads),
            tools: Mutex::default(),
        };
        Ok(Self { threads, common: Arc::new(common) })
    }

    /// Threads for one tool alone, [`TOOL_THREADS`] at most: a file system that hangs takes only those. How many files may
    /// be open is still counted for all tools together.
    ///
    /// # Errors
    /// If the system has no memory for them.
    pub(crate) fn of_tool(&self) -> std::io::Result<Self> {
        let threads = Arc::new(Threads::start(TOOL_THREADS)?);
        let mut tools = self.common.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if tools.is_shut_down {
            threads.shut_down();
        }
        tools.threads.retain(|threads| threads.strong_count() > 0);
        tools.threads.push(Arc::downgrade(&threads));
        drop(tools);
        Ok(Self { threads, common: Arc::clone(&self.common) })
    }

    /// Runs a piece of work and waits for it. If nobody waits any more, work that has not begun never does.
    pub(crate) fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Work<R> {
        Work(self.threads.handle.spawn_blocking(work))
    }

    /// Runs a piece of work that nobody waits for, on the host's own threads: a tool may be gone before it is done.
    pub(crate) fn detach(&self, work: impl FnOnce() + Send + 'static) {
        drop(self.common.host.handle.spawn_blocking(work));
    }

    /// Lets whatever `future` hands to "the" blocking threads run on these.
    pub(crate) async fn within<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            let _entered = self.threads.handle.enter();
            future.as_mut().poll(cx)
        })
        .await
    }

    /// The same for what is done at once.
    pub(crate) fn entered<R>(&self, f: impl FnOnce() -> R) -> R {
        let _entered = self.threads.handle.enter();
        f()
    }

    /// The right to hold one more file open, if all calls together do not hold too many already.
    pub(crate) fn open_slot(&self) -> Option<OpenSlot> {
        let slot = OpenSlot(self.clone());
        // Counted first and looked at then, so that no two get the last one.
        let before = self.common.open.fetch_add(1, Ordering::Relaxed);
        (before < self.common.most_open).then_some(slot)
    }

    /// Waits for nothing: what hangs in the kernel goes on hanging there, and everything else is over at once.
    pub(crate) fn shut_down(&self) {
        let mut tools = self.common.tools.lock().unwrap_or_else(PoisonError::into_inner);
        tools.is_shut_down = true;
        let of_tools = std::mem::take(&mut tools.threads);
        drop(tools);
        of_tools.iter().filter_map(Weak::upgrade).for_each(|threads| threads.shut_down());
        self.common.host.shut_down();
    }
}

impl Drop for OpenSlot {
    fn drop(&mut self) {
        self.0.common.open.fetch_sub(1, Ordering::Relaxed);
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

    #[tokio::test]
    async fn a_tool_whose_files_hang_holds_up_no_other() {
        let pool = FilePool::start().unwrap();
        let (stuck, other) = (pool.of_tool().unwrap(), pool.of_tool().unwrap());
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
        pool.shut_down();
        assert_eq!(other.run(|| 7).await, Err(Gone), "it ends with the host");
        assert_eq!(pool.of_tool().unwrap().run(|| 7).await, Err(Gone));
        drop((release, hung));
    }

    #[test]
    fn no_more_files_are_open_than_the_process_may_have() {
        let pool = FilePool::start().unwrap();
        let most = pool.common.most_open;
        let mut slots: Vec<_> = (0..most).map(|_| pool.open_slot().unwrap()).collect();
        assert!(pool.open_slot().is_none());
        assert!(pool.of_tool().unwrap().open_slot().is_none(), "all tools together");
        slots.pop();
        assert!(pool.open_slot().is_some());
    }
}
