//! A future that is polled again at once where it wakes itself.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Maximum number of polls in a row, so that a future that always wakes itself does not keep its thread.
const MAX_POLLS: usize = 4;

/// Nobody polls the future.
const IDLE: u8 = 0;
/// The future is being polled.
const POLLING: u8 = 1;
/// The future is being polled, and was woken meanwhile.
const WOKEN: u8 = 2;

/// A future that is polled again at once where it is woken while it is polled.
///
/// A connection of hyper wakes itself for each body that it reads: its two halves are parts of one task. The scheduler
/// takes that for a task that makes way for others, and wakes a second thread, which then takes the task away from the
/// first one's caches.
pub(crate) struct Repolling<F> {
    inner: Pin<Box<F>>,
    relay: Arc<Relay>,
    waker: Waker,
}

/// The waker that the future gets.
struct Relay {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Another wake while it is polled changes nothing.
        let noted =
            self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| (state != IDLE).then_some(WOKEN));
        if noted.is_err() {
            self.task.wake();
        }
    }
}

impl<F: Future> Repolling<F> {
    pub(crate) fn new(inner: F) -> Self {
        let relay = Arc::new(Relay { state: AtomicU8::new(IDLE), task: AtomicWaker::new() });
        let waker = Waker::from(Arc::clone(&relay));
        Self { inner: Box::pin(inner), relay, waker }
    }
}

impl<F: Future> Future for Repolling<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        this.relay.task.register(context.waker());
        for _ in 0..MAX_POLLS {
            this.relay.state.store(POLLING, Ordering::Release);
            let polled = this.inner.as_mut().poll(&mut Context::from_waker(&this.waker));
            let was_woken = this.relay.state.swap(IDLE, Ordering::AcqRel) == WOKEN;
            if polled.is_ready() || !was_woken {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Polls a future that wakes itself in each of its first polls. Returns the number of polls, and of wakes of the task.
    fn poll_once(waking: usize) -> (Poll<()>, usize, usize) {
        let count = Arc::new(Count::default());
        let mut polls = 0;
        let polled = {
            let mut future = Repolling::new(std::future::poll_fn(|context: &mut Context<'_>| {
                polls += 1;
                if polls > waking {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            }));
            Pin::new(&mut future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(&count))))
        };
        (polled, polls, count.0.load(Ordering::Relaxed))
    }

    #[test]
    fn polls_again_what_wakes_itself() {
        assert_eq!(poll_once(0), (Poll::Ready(()), 1, 0));
        assert_eq!(poll_once(2), (Poll::Ready(()), 3, 0));
    }

    #[test]
    fn makes_way_for_others_in_the_end() {
        assert_eq!(poll_once(MAX_POLLS), (Poll::Pending, MAX_POLLS, 1));
    }

    #[test]
    fn later_wakes_reach_the_task() {
        let count = Arc::new(Count::default());
        let mut inner = None;
        let mut future = Repolling::new(std::future::poll_fn(|context: &mut Context<'_>| {
            inner = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        let waker = Waker::from(Arc::clone(&count));
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(future);
        inner.unwrap().wake();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_of_another_thread_is_lost() {
        for _ in 0..2_000 {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let waiting = tokio::spawn(Repolling::new(receiver));
            tokio::task::yield_now().await;
            sender.send(7).unwrap();
            assert_eq!(waiting.await.unwrap(), Ok(7));
        }
    }
}
