//! The way of the host's threads into the interpreter. A thread that waits for the interpreter's lock while the interpreter ends is ended
//! by Python in a way that ends the process, so that none may be inside by then.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Maximum wait for threads that are inside when the interpreter ends. In a forked process the count may have those of the other one.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval at which the count is looked at.
const INTERVAL: Duration = Duration::from_millis(1);

/// The number of threads that are inside, or about to look whether they may be.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// A thread that is counted.
struct Visit;

impl Visit {
    fn begin() -> Self {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs `visit` with the interpreter's lock, on a thread of the host. Returns `None` if the interpreter ends or has ended.
pub(crate) fn attach<T>(visit: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _counted = Visit::begin();
    if IS_CLOSED.load(Ordering::SeqCst) {
        return None;
    }
    Python::try_attach(visit)
}

/// Lets no more threads in, and waits for those that are inside. Runs when the interpreter is about to end.
#[pyfunction]
pub(crate) fn close(py: Python<'_>) {
    IS_CLOSED.store(true, Ordering::SeqCst);
    py.detach(|| {
        let begun = Instant::now();
        while INSIDE.load(Ordering::SeqCst) > 0 && begun.elapsed() < PATIENCE {
            std::thread::sleep(INTERVAL);
        }
    });
}
