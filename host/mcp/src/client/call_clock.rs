//! The time of a call: progress of its server extends it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fumehood_core::call::Observer;
use fumehood_core::call::event::{Level, Progress};
use tokio::time::Instant;

/// The time limits of one call, and its last sign of life.
pub(super) struct CallClock {
    started: Instant,
    last_progress: Mutex<Instant>,
    /// Number of questions to the client that are open.
    questions: AtomicUsize,
    /// Maximum time without progress.
    pub(super) deadline: Duration,
    /// Maximum time in all.
    pub(super) max_time: Duration,
}

/// The limit that a call exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExceededLimit {
    Deadline,
    MaxTime,
    /// The maximum time in all, during a question to the client.
    Unanswered,
}

/// A question to the client of the call. The time without progress stands still until it is dropped.
pub(super) struct OpenQuestion(Arc<CallClock>);

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.note_progress();
        self.0.questions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An observer that notes progress in a clock before it forwards it.
struct ClockObserver {
    clock: Arc<CallClock>,
    observer: Option<Arc<dyn Observer>>,
}

impl Observer for ClockObserver {
    fn progress(&self, progress: Progress) {
        self.clock.note_progress();
        if let Some(observer) = &self.observer {
            observer.progress(progress);
        }
    }

    fn log(&self, level: Level, message: &str) {
        if let Some(observer) = &self.observer {
            observer.log(level, message);
        }
    }
}

impl CallClock {
    /// Starts the time of a call.
    pub(super) fn start(deadline: Duration, max_time: Duration) -> Arc<Self> {
        let started = Instant::now();
        let last_progress = Mutex::new(started);
        let questions = AtomicUsize::new(0);
        Arc::new(Self { started, last_progress, questions, deadline, max_time: max_time.max(deadline) })
    }

    /// Stops the time without progress for a question to the client.
    pub(super) fn ask(self: &Arc<Self>) -> OpenQuestion {
        self.questions.fetch_add(1, Ordering::Relaxed);
        OpenQuestion(Arc::clone(self))
    }

    fn note_progress(&self) {
        *self.last_progress.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Wraps the observer of the call, so that its progress extends the time.
    pub(super) fn observe(self: &Arc<Self>, observer: Option<Arc<dyn Observer>>) -> Arc<dyn Observer> {
        Arc::new(ClockObserver { clock: Arc::clone(self), observer })
    }

    fn end(&self) -> Instant {
        if self.questions.load(Ordering::Relaxed) > 0 {
            self.note_progress();
        }
        let last_progress = *self.last_progress.lock().unwrap_or_else(PoisonError::into_inner);
        (last_progress + self.deadline).min(self.started + self.max_time)
    }

    /// Waits for a call within its time.
    ///
    /// # Errors
    /// If the time is over.
    pub(super) async fn limit<F: Future>(&self, call: F) -> Result<F::Output, ExceededLimit> {
        let mut call = std::pin::pin!(call);
        loop {
            let end = self.end();
            match tokio::time::timeout_at(end, call.as_mut()).await {
                Ok(ended) => return Ok(ended),
                Err(_elapsed) if self.end() > end => {}
                Err(_elapsed) if self.questions.load(Ordering::Relaxed) > 0 => return Err(ExceededLimit::Unanswered),
                Err(_elapsed) if end == self.started + self.max_time && self.max_time > self.deadline => {
                    return Err(ExceededLimit::MaxTime);
                }
                Err(_elapsed) => return Err(ExceededLimit::Deadline),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn progress_extends_the_time_up_to_a_maximum() {
        let second = Duration::from_secs(1);
        let quiet = CallClock::start(second, 5 * second);
        assert_eq!(quiet.limit(tokio::time::sleep(2 * second)).await, Err(ExceededLimit::Deadline));
        let clock = CallClock::start(second, 5 * second);
        let observer = clock.observe(None);
        let reporting = async {
            for _ in 0..6 {
                tokio::time::sleep(second / 2).await;
                observer.progress(Progress { fraction: None, message: None, partial: Vec::new() });
            }
        };
        assert_eq!(clock.limit(reporting).await, Ok(()));
        let clock = CallClock::start(second, 5 * second);
        let asking = async {
            let question = clock.ask();
            tokio::time::sleep(3 * second).await;
            drop(question);
            tokio::time::sleep(second / 2).await;
        };
        assert_eq!(clock.limit(asking).await, Ok(()), "people take longer than servers");
        let clock = CallClock::start(second, 5 * second);
        let question = clock.ask();
        let unanswered = clock.limit(tokio::time::sleep(6 * second)).await;
        assert_eq!((unanswered, clock.started.elapsed()), (Err(ExceededLimit::Unanswered), 5 * second));
        drop(question);
        let clock = CallClock::start(second, 5 * second);
        let observer = clock.observe(None);
        let endless = async {
            loop {
                tokio::time::sleep(second / 2).await;
                observer.progress(Progress { fraction: None, message: None, partial: Vec::new() });
            }
        };
        let endless: Result<(), _> = clock.limit(endless).await;
        assert_eq!((endless, clock.started.elapsed()), (Err(ExceededLimit::MaxTime), 5 * second));
    }
}
