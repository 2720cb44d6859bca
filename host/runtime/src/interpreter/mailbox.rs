//! The way of a program's calls from the store of its interpreter to the task that runs it, and back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use fumehood_core::program::FinishedCall;

/// A request of the guest.
#[derive(Debug)]
pub(crate) enum Request {
    Start { name: String, arguments: String },
    Wait,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    Started(u32),
    Finished(Vec<FinishedCall>),
    /// The program is to end.
    Stop(Stop),
}

/// A reason to stop a program from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    #[error("the deadline of the program has passed")]
    Deadline,
    #[error("the program was cancelled")]
    Cancelled,
    #[error("the account of its fuel is empty")]
    Account,
    #[error("the request of the program got an unexpected answer")]
    Protocol,
}

/// One request at a time, and its answer. Clones share it.
///
/// The guest has no waker: the task that answers polls it again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mailbox(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    request: Option<Request>,
    answer: Option<Answer>,
}

impl Mailbox {
    /// Makes a request, and waits for its answer.
    pub(crate) async fn ask(&self, request: Request) -> Answer {
        self.lock().request = Some(request);
        std::future::poll_fn(|_| self.lock().answer.take().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Returns whether there is a request that nobody has taken.
    pub(crate) fn has_request(&self) -> bool {
        self.lock().request.is_some()
    }

    /// Takes the request.
    pub(crate) fn take_request(&self) -> Option<Request> {
        self.lock().request.take()
    }

    /// Answers the request.
    pub(crate) fn answer(&self, answer: Answer) {
        self.lock().answer = Some(answer);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
