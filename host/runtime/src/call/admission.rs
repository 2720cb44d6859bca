//! Limits on the number of running and of queued calls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

/// A limiter of running calls, with a bounded queue of waiting ones.
pub(crate) struct Admission {
    places: Semaphore,
    waiting: AtomicUsize,
    queue: usize,
}

/// Errors of [`Admission::enter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionError {
    /// The queue is full.
    Full,
    /// The host is shutting down.
    Closed,
}

/// A guard that counts a call as waiting until it is dropped.
struct WaitingGuard<'a>(&'a AtomicUsize);

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    /// Creates a limiter of `places` running calls and `queue` waiting ones.
    pub(crate) fn new(places: u32, queue: u32) -> Self {
        Self { places: Semaphore::new(places as usize), waiting: AtomicUsize::new(0), queue: queue as usize }
    }

    /// Waits for a place, in the order of arrival, and returns how long that took. A call that succeeds must be paired
    /// with [`Admission::leave`].
    ///
    /// # Errors
    /// If the queue is full or the limiter is closed. No place is held in that case.
    pub(crate) async fn enter(&self) -> Result<Duration, AdmissionError> {
        if self.try_enter() {
            return Ok(Duration::ZERO);
        }
        if self.places.is_closed() {
            return Err(AdmissionError::Closed);
        }
        let since = Instant::now();
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.queue {
            drop(WaitingGuard(&self.waiting));
            return Err(AdmissionError::Full);
        }
        let waiting = WaitingGuard(&self.waiting);
        let permit = self.places.acquire().await.map_err(|_| AdmissionError::Closed)?;
        drop(waiting);
        permit.forget();
        Ok(since.elapsed())
    }

    /// Takes a place if one is free, and returns whether it did. To be paired like [`Admission::enter`].
    pub(crate) fn try_enter(&self) -> bool {
        self.places.try_acquire().map(SemaphorePermit::forget).is_ok()
    }

    /// Gives back a place that [`Admission::enter`] granted.
    pub(crate) fn leave(&self) {
        self.places.add_permits(1);
    }

    /// Refuses all waiting and all later calls.
    pub(crate) fn close(&self) {
        self.places.close();
    }
}
