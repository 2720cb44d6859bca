//! The thread that advances the epoch, so that running guests look up once a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use wasmtime::{Engine, EngineWeak};

use crate::clock::TICK;

/// After this many ticks without a call the thread goes to sleep, so that an idle host costs nothing.
const IDLE_TICKS: u32 = 200;

/// A plain thread, not a task: it must run when every worker is busy with guests. It holds the engine weakly.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
    join: Option<JoinHandle<()>>,
}

struct Shared {
    running: AtomicUsize,
    asleep: AtomicBool,
    stop: AtomicBool,
}

/// The epoch advances as long as one of these lives.
pub(crate) struct Ticking<'a>(&'a Shared);

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            running: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let (weak, seen) = (engine.weak(), Arc::clone(&shared));
        let join = std::thread::Builder::new().name("fumehood-epoch".to_owned()).spawn(move || tick(&weak, &seen))?;
        Ok(Self { shared, thread: join.thread().clone(), join: Some(join) })
    }

    /// Says that a call is about to run guest code.
    pub(crate) fn run(&self) -> Ticking<'_> {
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        // Pairs with the thread, which first says that it sleeps and then looks at `running` once more: one of the two
        // sees the other.
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Ticking(&self.shared)
    }

    /// How many calls are running guest code.
    pub(crate) fn running(&self) -> usize {
        self.shared.running.load(Ordering::SeqCst)
    }
}

impl Drop for Ticking<'_> {
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

fn tick(engine: &EngineWeak, shared: &Shared) {
    let mut idle = 0;
    while !shared.stop.load(Ordering::SeqCst) {
        std::thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else { return };
        engine.increment_epoch();
        idle = if shared.running.load(Ordering::SeqCst) == 0 { idle + 1 } else { 0 };
        if idle >= IDLE_TICKS {
            idle = 0;
            drop(engine);
            sleep_until_called(shared);
        }
    }
}

fn sleep_until_called(shared: &Shared) {
    shared.asleep.store(true, Ordering::SeqCst);
    while shared.running.load(Ordering::SeqCst) == 0 && !shared.stop.load(Ordering::SeqCst) {
        // A bounded nap, so that even a lost wake-up could stretch a deadline only that far.
        std::thread::park_timeout(Duration::from_secs(1));
    }
    shared.asleep.store(false, Ordering::SeqCst);
}
