//! The longest time for which a future holds the thread that polls it.

use std::pin::pin;
use std::time::{Duration, Instant};

/// Completes a future, and returns its output with the longest time of one poll, during which the thread serves no other future.
pub async fn longest_poll<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let mut work = pin!(work);
    let mut longest = Duration::ZERO;
    let output = std::future::poll_fn(|cx| {
        let started = Instant::now();
        let polled = work.as_mut().poll(cx);
        longest = longest.max(started.elapsed());
        polled
    })
    .await;
    (output, longest)
}
