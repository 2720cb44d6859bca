//! The deadline of a program, which can be paused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::program::ProgramClock;

/// The deadline of a running program. Clones share it.
///
/// A program that waits for a person is not charged for that: the deadline moves by the time for which it was paused.
#[derive(Debug, Clone)]
pub(crate) struct ProgramDeadline(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    at: Instant,
    pauses: usize,
    /// The start of the first pause that has not ended.
    paused_since: Instant,
}

/// A pause of a [`ProgramDeadline`], which ends when it is dropped.
#[derive(Debug)]
#[must_use = "the pause ends when this is dropped"]
pub(crate) struct Pause(ProgramDeadline);

impl ProgramDeadline {
    /// Creates a deadline that is `budget` after `now`.
    pub(crate) fn after(now: Instant, budget: Duration) -> Self {
        Self(Arc::new(Mutex::new(State { at: now + budget, pauses: 0, paused_since: now })))
    }

    /// Pauses the deadline until the returned guard is dropped. Pauses may overlap.
    fn start_pause(&self) -> Pause {
        let mut state = self.lock();
        if state.pauses == 0 {
            state.paused_since = Instant::now();
        }
        state.pauses += 1;
        drop(state);
        Pause(self.clone())
    }

    /// Returns the time that is left: zero after the deadline, and `None` while it is paused.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let state = self.lock();
        (state.pauses == 0).then(|| state.at.saturating_duration_since(Instant::now()))
    }

    /// Returns whether the deadline has passed.
    pub(crate) fn has_passed(&self) -> bool {
        self.remaining() == Some(Duration::ZERO)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProgramClock for ProgramDeadline {
    fn pause(&self) -> Box<dyn Send> {
        Box::new(self.start_pause())
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.pauses = state.pauses.saturating_sub(1);
        if state.pauses == 0 {
            let paused = state.paused_since.elapsed();
            state.at += paused;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_by_the_time_of_overlapping_pauses() {
        let deadline = ProgramDeadline::after(Instant::now(), Duration::ZERO);
        assert!(deadline.has_passed());
        let first = deadline.start_pause();
        let second = deadline.start_pause();
        std::thread::sleep(Duration::from_millis(20));
        drop(first);
        assert_eq!(deadline.remaining(), None);
        assert!(!deadline.has_passed());
        let start = deadline.lock().at;
        drop(second);
        assert!(deadline.lock().at >= start + Duration::from_millis(20));
    }
}
