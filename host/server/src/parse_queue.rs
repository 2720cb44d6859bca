//! A queue for parsing expensive messages, away from the thread that serves connections and listens for signals.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Semaphore;

/// Maximum number of messages that are parsed at once.
const MAX_PARSERS: usize = 2;

/// The output of a future that was started, or the future if it has not ended.
type FirstPoll<F> = Result<<F as Future>::Output, Pin<Box<F>>>;

/// A queue of work that runs on other threads, a little at a time.
///
/// Each tenant has one permit and waits for the next one in a common queue, so tenants take turns. Cheap to clone; clones
/// share the queue.
#[derive(Debug, Clone)]
pub struct ParseQueue {
    places: Arc<Semaphore>,
}

impl Default for ParseQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl ParseQueue {
    /// Creates a queue.
    #[must_use]
    pub fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_PARSERS)) }
    }

    /// Runs `work` once the permit `turn` of its tenant and a parser are free. Work that has started runs to its
    /// end, and keeps its permits, even if the returned future is dropped.
    ///
    /// Returns `None` if the work panicked or the runtime is shutting down.
    pub async fn run<T: Send + 'static>(
        &self,
        turn: Arc<Semaphore>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = turn.acquire_owned().await.ok()?;
        let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop((turn, place));
            done
        });
        working.await.ok()
    }

    /// Completes `future`. Its first poll, up to the first time that it waits, runs in the queue; the rest runs on the
    /// caller's task.
    pub async fn start<F>(&self, turn: Arc<Semaphore>, future: F) -> Option<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        match self.run(turn, move || poll_once(future)).await? {
            Ok(output) => Some(output),
            Err(future) => Some(future.await),
        }
    }
}

fn poll_once<F: Future>(future: F) -> FirstPoll<F> {
    let mut future = Box::pin(future);
    // The caller polls it again, with a real waker.
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err(future),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    fn turn() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(1))
    }

    #[tokio::test]
    async fn tenants_take_turns() {
        let queue = Arc::new(ParseQueue::new());
        let done = Arc::new(Mutex::new(Vec::new()));
        let [greedy, modest] = [turn(), turn()];
        let work = |name: &'static str, turn: &Arc<Semaphore>| {
            let queue = Arc::clone(&queue);
            let done = Arc::clone(&done);
            let turn = Arc::clone(turn);
            tokio::spawn(async move {
                let work = move || {
                    std::thread::sleep(Duration::from_millis(50));
                    done.lock().unwrap().push(name);
                };
                queue.run(turn, work).await.unwrap();
            })
        };
        let greedy: Vec<_> = (0..8).map(|_| work("greedy", &greedy)).collect();
        tokio::time::sleep(Duration::from_millis(10)).await;
        work("modest", &modest).await.unwrap();
        let before = done.lock().unwrap().len();
        assert!(before <= 4, "{before} of 9 came first");
        for greedy in greedy {
            greedy.await.unwrap();
        }
    }

    #[tokio::test]
    async fn polls_a_future_in_the_queue_first() {
        let queue = ParseQueue::new();
        let here = std::thread::current().id();
        let future = async move {
            let first = std::thread::current().id();
            tokio::time::sleep(Duration::from_millis(20)).await;
            (first == here, std::thread::current().id() == here)
        };
        assert_eq!(queue.start(turn(), future).await, Some((false, true)));
        assert_eq!(queue.start(turn(), async { 7 }).await, Some(7));
        let panicking = queue.run(turn(), || -> u8 { panic!("for this test") });
        assert_eq!(panicking.await, None);
    }
}
