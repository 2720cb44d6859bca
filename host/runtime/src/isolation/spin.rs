//! Short polling for a message of another process, while a core is free for it.
//!
//! Waking a sleeping thread takes longer than most calls, so both ends of a socket poll for a short time before they sleep. On a
//! machine whose cores are busy that is the wrong thing: who polls uses up its turn, and waits for the next one behind the
//! other threads, while a thread that sleeps is woken at once. The scheduler itself tells which of the two it is: a thread
//! that offers its core (`sched_yield(2)`) has it back soon, unless another thread wanted it for a whole turn.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which a thread polls before it sleeps.
const SPIN: Duration = Duration::from_micros(60);
/// Time for which an offered core is away at most while only the other end of the socket wants it: most calls end within it. Any other
/// thread that wants the core keeps it for a turn of the scheduler, which is longer.
const MAX_IDLE_YIELD: Duration = Duration::from_micros(500);
/// Time without polling after a core was wanted.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// Maximum time without polling. Each pause is twice as long as the one before, until polling is undisturbed.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Number of turns after which polling counts as undisturbed.
const UNDISTURBED_TURNS: u32 = 8;

/// The decision of one end of a socket whether it polls.
#[derive(Debug, Default)]
pub(super) struct Spinner(Mutex<Pause>);

#[derive(Debug, Default)]
struct Pause {
    until: Option<Instant>,
    length: Duration,
}

/// One time of polling.
#[derive(Debug)]
pub(super) struct Spin<'s> {
    spinner: &'s Spinner,
    /// `None` if there is no polling now.
    until: Option<Instant>,
    undisturbed_turns: u32,
}

impl Spinner {
    /// Begins to poll, unless a core was wanted shortly before.
    pub(super) fn start(&self) -> Spin<'_> {
        let now = Instant::now();
        let paused = self.pause().until.is_some_and(|until| now < until);
        Spin { spinner: self, until: (!paused).then(|| now + SPIN), undisturbed_turns: 0 }
    }

    fn pause(&self) -> MutexGuard<'_, Pause> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn core_was_wanted(&self, now: Instant) {
        let mut pause = self.pause();
        pause.length = pause.length.saturating_mul(2).clamp(MIN_PAUSE, MAX_PAUSE);
        pause.until = Some(now + pause.length);
    }
}

impl Spin<'_> {
    /// Offers the core to other threads once. Returns false when it is time to sleep instead.
    pub(super) fn turn(&mut self) -> bool {
        let Some(until) = self.until else { return false };
        let before = Instant::now();
        if before > until {
            self.until = None;
            return false;
        }
        std::thread::yield_now();
        let now = Instant::now();
        if now.saturating_duration_since(before) > MAX_IDLE_YIELD {
            self.spinner.core_was_wanted(now);
            self.until = None;
            return true;
        }
        self.undisturbed_turns += 1;
        if self.undisturbed_turns == UNDISTURBED_TURNS {
            *self.spinner.pause() = Pause::default();
        }
        // What may have arrived meanwhile is looked at in either case.
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_polling_succeeds() {
        let spinner = Spinner::default();
        let now = Instant::now();
        assert!(spinner.start().until.is_some());
        spinner.core_was_wanted(now);
        assert!(!spinner.start().turn(), "it sleeps at once");
        for _ in 0..10 {
            spinner.core_was_wanted(now);
        }
        assert_eq!(spinner.pause().length, MAX_PAUSE);
        let mut spin = Spin { spinner: &spinner, until: Some(now), undisturbed_turns: 0 };
        std::thread::sleep(Duration::from_millis(1));
        assert!(!spin.turn(), "its time is over");
    }
}
