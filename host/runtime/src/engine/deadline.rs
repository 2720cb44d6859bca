//! The deadline of one call, and the thread that advances the engine's epoch so that guests check theirs.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use wasmtime::{Engine, EngineWeak};

/// Interval at which the epoch advances: the longest time for which a guest runs before its deadline is checked.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Ticks for which a guest runs before it first yields. The first tick may be almost over when a call starts, so with
/// one tick short calls would yield for no reason.
pub(crate) const FIRST_SLICE: u64 = 2;
/// Ticks without a call after which the thread goes to sleep, so that an idle host uses no CPU time.
const IDLE_TICKS: u32 = 200;

/// The point in time by which a call must be over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    armed: Instant,
    at: Instant,
}

/// The error that stops a guest whose deadline has passed.
#[derive(Debug, thiserror::Error)]
#[error("the deadline of the call has passed")]
pub(crate) struct DeadlinePassed;

impl Deadline {
    /// Creates a deadline that is `budget` after `now`. [`fumehood_core::call::limits::Limits::check`] bounds the budget to a
    /// day.
    pub(crate) fn after(now: Instant, budget: Duration) -> Self {
        Self { armed: now, at: now + budget }
    }

    /// Returns the time at which the call began.
    pub(crate) fn armed(&self) -> Instant {
        self.armed
    }

    /// Returns the time at which the call must be over.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// Returns the time that is left; zero after the deadline.
    pub(crate) fn remaining(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Returns whether the deadline has passed.
    pub(crate) fn passed(&self) -> bool {
        Instant::now() >= self.at
    }
}

/// The epoch thread of one engine.
///
/// A plain thread, not a task: it must run when every worker thread is busy with guests. It holds the engine weakly.
pub(crate) struct Ticker {
    shared: Arc<TickerState>,
    thread: Thread,
    join: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct TickerState {
    running: AtomicUsize,
    asleep: AtomicBool,
    stop: AtomicBool,
    /// Those that wait for a point in time, each with a number of its own.
    waiting: Mutex<BTreeMap<(Instant, u64), Waker>>,
    next_number: AtomicU64,
}

/// A guard that keeps the epoch advancing until it is dropped.
pub(crate) struct TickGuard<'a>(&'a TickerState);

impl Ticker {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::<TickerState>::default();
        let weak = engine.weak();
        let state = Arc::clone(&shared);
        let join = std::thread::Builder::new().name("fumehood-epoch".to_owned()).spawn(move || tick(&weak, &state))?;
        Ok(Self { shared, thread: join.thread().clone(), join: Some(join) })
    }

    /// Registers a call that is about to run guest code, and wakes the thread if it sleeps.
    pub(crate) fn run(&self) -> TickGuard<'_> {
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        self.wake();
        TickGuard(&self.shared)
    }

    /// Waits until `at`, to a tick. Works on any executor, and while all threads that run guests are busy.
    pub(crate) fn wait_until(&self, at: Instant) -> WaitUntil<'_> {
        let number = self.shared.next_number.fetch_add(1, Ordering::Relaxed);
        WaitUntil { ticker: self, key: (at, number) }
    }

    /// Wakes the thread if it sleeps.
    fn wake(&self) {
        // Pairs with the thread, which first sets `asleep` and then looks for work once more: one of the two sees the
        // other's store.
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
    }

    /// Returns the number of calls that are running guest code.
    pub(crate) fn running(&self) -> usize {
        self.shared.running.load(Ordering::SeqCst)
    }
}

/// See [`Ticker::wait_until`].
pub(crate) struct WaitUntil<'a> {
    ticker: &'a Ticker,
    key: (Instant, u64),
}

impl Future for WaitUntil<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.key.0 {
            return Poll::Ready(());
        }
        self.ticker.shared.waiting().insert(self.key, cx.waker().clone());
        self.ticker.wake();
        Poll::Pending
    }
}

impl Drop for WaitUntil<'_> {
    fn drop(&mut self) {
        self.ticker.shared.waiting().remove(&self.key);
    }
}

impl TickerState {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<(Instant, u64), Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those whose time has come.
    fn wake_due(&self) {
        let mut waiting = self.waiting();
        let later = waiting.split_off(&(Instant::now(), u64::MAX));
        let due = std::mem::replace(&mut *waiting, later);
        // Woken without the lock.
        drop(waiting);
        due.into_values().for_each(Waker::wake);
    }

    fn is_idle(&self) -> bool {
        self.running.load(Ordering::SeqCst) == 0 && self.waiting().is_empty()
    }
}

impl Drop for TickGuard<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.thread.unpark();
        if let Some(join) = self.join.take() {
            // The thread never panics and never waits for anything but the clock.
            let _ = join.join();
        }
    }
}

fn tick(engine: &EngineWeak, shared: &TickerState) {
    let mut idle = 0;
    while !shared.stop.load(Ordering::SeqCst) {
        std::thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else { return };
        engine.increment_epoch();
        shared.wake_due();
        idle = if shared.is_idle() { idle + 1 } else { 0 };
        if idle >= IDLE_TICKS {
            idle = 0;
            drop(engine);
            sleep_until_called(shared);
        }
    }
}

fn sleep_until_called(shared: &TickerState) {
    shared.asleep.store(true, Ordering::SeqCst);
    while shared.is_idle() && !shared.stop.load(Ordering::SeqCst) {
        // Bounded, so that even a lost wake-up could delay a deadline by no more than this.
        std::thread::park_timeout(Duration::from_secs(1));
    }
    shared.asleep.store(false, Ordering::SeqCst);
}
