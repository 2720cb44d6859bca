//! How many calls run at once, and how many may wait for a place.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

pub(crate) struct Admission {
    places: Semaphore,
    waiting: AtomicUsize,
    queue: usize,
}

/// Why a call gets no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionError {
    /// Too many are waiting already.
    Full,
    /// The host is shutting down.
    Closed,
}

/// One place, until it is dropped. It counts as waiting no longer, however the wait ends.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    pub(crate) fn new(places: u32, queue: u32) -> Self {
        Self { places: Semaphore::new(places as usize), waiting: AtomicUsize::new(0), queue: queue as usize }
    }

    /// Waits for a place, in the order of arrival, and says how long that took. Whoever gets one owes a
    /// [`Admission::leave`].
    pub(crate) async fn enter(&self) -> Result<Duration, AdmissionError> {
        if let Ok(permit) = self.places.try_acquire() {
            permit.forget();
            return Ok(Duration::ZERO);
        }
        if self.places.is_closed() {
            return Err(AdmissionError::Closed);
        }
        let since = Instant::now();
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.queue {
            drop(Waiting(&self.waiting));
            return Err(AdmissionError::Full);
        }
        let waiting = Waiting(&self.waiting);
        let permit = self.places.acquire().await.map_err(|_| AdmissionError::Closed)?;
        drop(waiting);
        permit.forget();
        Ok(since.elapsed())
    }

    /// Gives a place back.
    pub(crate) fn leave(&self) {
        self.places.add_permits(1);
    }

    /// Turns away everybody who waits, and everybody who comes.
    pub(crate) fn close(&self) {
        self.places.close();
    }
}
