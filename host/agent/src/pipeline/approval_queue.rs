//! An approver whose questions are a stream, each with a handle that takes the answer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::policy::call::{Answer, Approver, CallQuestion, Question};
use futures_util::Stream;
use tokio::sync::{mpsc, oneshot};

/// An [`Approver`] that puts questions into a stream, for programs that answer them elsewhere: in a window, a chat, another
/// service.
///
/// ```
/// use fumehood_agent::approval_queue::ApprovalQueue;
/// use fumehood_core::policy::call::{Answer, Approver, Question};
/// use futures_util::StreamExt as _;
/// # futures_executor(async {
/// let (queue, mut requests) = ApprovalQueue::new(Answer::Defer);
/// // `queue` is given to an agent, which asks:
/// let asking = queue.ask(Question::Budget("Go on?"));
/// let answering = async {
///     let request = requests.next().await.unwrap();
///     assert_eq!(request.text(), "Go on?");
///     request.answer(Answer::Allow);
/// };
/// assert_eq!(futures_util::join!(asking, answering).0, Answer::Allow);
/// # });
/// # fn futures_executor(work: impl Future<Output = ()>) {
/// #     tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work);
/// # }
/// ```
#[derive(Debug)]
pub struct ApprovalQueue {
    sender: mpsc::UnboundedSender<ApprovalRequest>,
    /// The answer once nobody takes questions any more.
    unattended: Answer,
    last: AtomicU64,
}

/// The questions of an [`ApprovalQueue`], as a stream. Dropping it ends them: the queue gives its own answer from then on.
#[derive(Debug)]
pub struct ApprovalRequests(mpsc::UnboundedReceiver<ApprovalRequest>);

/// A question with the handle for its answer. Dropping it unanswered refuses.
#[derive(Debug)]
pub struct ApprovalRequest {
    id: String,
    question: ApprovalQuestion,
    answer: oneshot::Sender<Answer>,
}

/// The question of an [`ApprovalRequest`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ApprovalQuestion {
    /// Approval of a call.
    Call(CallQuestion),
    /// Continuation of a session that reached a limit.
    Budget(String),
}

impl ApprovalQueue {
    /// Creates a queue and the stream of its questions. `unattended` is the answer to questions once the stream was dropped.
    #[must_use]
    pub fn new(unattended: Answer) -> (Arc<Self>, ApprovalRequests) {
        // Without a bound: a batch has a limit of calls that run at a time, and each asks one question at a time.
        let (sender, receiver) = mpsc::unbounded_channel();
        (Arc::new(Self { sender, unattended, last: AtomicU64::new(0) }), ApprovalRequests(receiver))
    }
}

impl Approver for ApprovalQueue {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let question = match question {
            Question::Call(question) => ApprovalQuestion::Call(question.clone()),
            Question::Budget(text) => ApprovalQuestion::Budget(text.to_owned()),
        };
        let (answer, answered) = oneshot::channel();
        let id = format!("q{}", self.last.fetch_add(1, Ordering::Relaxed).saturating_add(1));
        let is_sent = self.sender.send(ApprovalRequest { id, question, answer }).is_ok();
        Box::pin(async move {
            if !is_sent {
                return self.unattended.clone();
            }
            match answered.await {
                Ok(answer) => answer,
                // The stream was dropped with the question in it, or the handle was dropped.
                Err(_) if self.sender.is_closed() => self.unattended.clone(),
                Err(_) => Answer::Deny { reason: "the question was not answered".to_owned() },
            }
        })
    }

    fn is_available(&self) -> bool {
        !self.sender.is_closed()
    }
}

impl Stream for ApprovalRequests {
    type Item = ApprovalRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ApprovalRequest>> {
        self.0.poll_recv(cx)
    }
}

impl ApprovalRequest {
    /// Returns the id of the question, unique in its queue.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the question.
    #[must_use]
    pub fn question(&self) -> &ApprovalQuestion {
        &self.question
    }

    /// Returns the text of the question.
    #[must_use]
    pub fn text(&self) -> &str {
        match &self.question {
            ApprovalQuestion::Call(question) => &question.question,
            ApprovalQuestion::Budget(text) => text,
        }
    }

    /// Returns whether nobody waits for the answer any more, because the run was stopped.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.answer.is_closed()
    }

    /// Answers the question. Returns whether somebody still waited for the answer.
    pub fn answer(self, answer: Answer) -> bool {
        self.answer.send(answer).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;

    #[tokio::test]
    async fn dropped_handle_refuses_and_dropped_stream_gives_the_answer_of_the_queue() {
        let (queue, mut requests) = ApprovalQueue::new(Answer::Defer);
        let asking = queue.ask(Question::Budget("Go on?"));
        drop(requests.next().await);
        assert!(matches!(asking.await, Answer::Deny { .. }));
        assert!(queue.is_available());

        let asking = queue.ask(Question::Budget("Go on?"));
        drop(requests);
        assert_eq!(asking.await, Answer::Defer, "it was in the stream");
        assert_eq!(queue.ask(Question::Budget("Go on?")).await, Answer::Defer);
        assert!(!queue.is_available());
    }

    #[tokio::test]
    async fn questions_are_answered_in_any_order_and_can_be_withdrawn() {
        let (queue, mut requests) = ApprovalQueue::new(Answer::no());
        let mut asking: Vec<_> = (0..3).map(|_| queue.ask(Question::Budget("Go on?"))).collect();
        let taken: Vec<_> = (&mut requests).take(3).collect().await;
        assert_eq!(taken.iter().map(ApprovalRequest::id).collect::<Vec<_>>(), ["q1", "q2", "q3"]);
        drop(asking.remove(0));
        let mut taken = taken.into_iter();
        let first = taken.next().unwrap();
        assert!(first.is_withdrawn() && !first.answer(Answer::Allow));
        let second = taken.next().unwrap();
        let third = taken.next().unwrap();
        assert!(third.answer(Answer::Defer));
        assert_eq!(asking.remove(1).await, Answer::Defer);
        assert!(asking[0].as_mut().now_or_never().is_none(), "the second waits");
        assert!(second.answer(Answer::Allow));
        assert_eq!(asking.remove(0).await, Answer::Allow);
    }
}
