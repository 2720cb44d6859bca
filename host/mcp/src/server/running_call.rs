//! A call of a client. A client without a handshake is asked for input by an incomplete result, and answers with its next
//! request: multi round-trip requests (2026-07-28, SEP-2322).

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::call::CancellationToken as CallToken;
use fumehood_core::call::client_requests::ClientRequestKind;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_server::CallOrJob;
use rmcp::model::{InputRequest, InputRequests, InputRequiredResult, InputResponses};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::DropGuard;
use tracing::Span;

use super::held_calls::{HeldPlace, HeldPlaces};
use super::notifications::Outbox;
use super::tools::catalogue::AnswerForm;

/// Maximum number of open questions of one call.
const MAX_OPEN_QUESTIONS: usize = 32;
/// Maximum number of answers to one call that ask for input.
const MAX_ROUNDS: u32 = 64;

const NOT_ASKED: &str = "the client can no longer be asked: its call became a task, or it has disconnected";
const TOO_MANY_QUESTIONS: &str = "the call has 32 open questions, the maximum";
const TOO_MANY_ROUNDS: &str = "the client sent the call 64 times without all of the answers";

/// A request that a client sends again with its answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RepeatedRequest {
    pub(super) method: &'static str,
    /// The name of the tool or prompt, or the URI of the resource, as the client wrote it.
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// A question to a client, which waits for its next request.
pub(super) struct Question {
    request: InputRequest,
    answer: oneshot::Sender<Result<Value, String>>,
}

/// The sender of the questions of one call.
pub(super) struct QuestionSender {
    questions: mpsc::Sender<Question>,
    /// The number of questions without an answer.
    open: watch::Sender<usize>,
    places: HeldPlaces,
    place: Place,
}

/// The place of a call, taken with its first question.
type Place = Arc<Mutex<Option<HeldPlace>>>;

/// The questions of one call that arrive.
pub(super) struct Questions {
    arriving: mpsc::Receiver<Question>,
    open: watch::Receiver<usize>,
    /// Those that the client knows, by their keys.
    asked: BTreeMap<String, Question>,
    last_key: u32,
    rounds: u32,
    /// Kept until the client has the end of the call.
    _place: Place,
}

/// A question without an answer, until this is dropped.
struct OpenQuestion<'a>(&'a watch::Sender<usize>);

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open = open.saturating_sub(1));
    }
}

/// Creates the two ends of the questions of a call.
pub(super) fn questions(places: HeldPlaces) -> (QuestionSender, Questions) {
    let (questions, arriving) = mpsc::channel(MAX_OPEN_QUESTIONS);
    let (open, open_now) = watch::channel(0);
    let place = Place::default();
    let sender = QuestionSender { questions, open, places, place: Arc::clone(&place) };
    (sender, Questions { arriving, open: open_now, asked: BTreeMap::new(), last_key: 0, rounds: 0, _place: place })
}

impl QuestionSender {
    /// Asks the client with the next answer to its call, and returns the result as the client wrote it.
    ///
    /// # Errors
    /// A sentence, if the client cannot be asked, or does not answer.
    pub(super) async fn ask(&self, kind: ClientRequestKind, params: Value) -> Result<Value, String> {
        let request = json!({"method": kind.method(), "params": params});
        let request = serde_json::from_value(request)
            .map_err(|error| format!("this revision of MCP does not have the question: {error}"))?;
        self.take_place()?;
        self.open.send_modify(|open| *open += 1);
        let _open = OpenQuestion(&self.open);
        let (answer, answered) = oneshot::channel();
        self.questions.try_send(Question { request, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => TOO_MANY_QUESTIONS,
            mpsc::error::TrySendError::Closed(_) => NOT_ASKED,
        })?;
        answered.await.unwrap_or_else(|_gone| Err(NOT_ASKED.to_owned()))
    }

    fn take_place(&self) -> Result<(), String> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if place.is_none() {
            *place = Some(self.places.take()?);
        }
        Ok(())
    }
}

impl Questions {
    /// Waits for questions.
    async fn arrive(&mut self) {
        loop {
            let Some(question) = self.arriving.recv().await else { return std::future::pending().await };
            self.add(question);
            // Those that were asked in the same moment go with the same answer.
            while let Ok(question) = self.arriving.try_recv() {
                self.add(question);
            }
            if self.has_asked() {
                return;
            }
        }
    }

    fn add(&mut self, question: Question) {
        self.last_key += 1;
        self.asked.insert(format!("input-{}", self.last_key), question);
    }

    /// Returns whether the client has to answer. The server may have withdrawn a question.
    fn has_asked(&mut self) -> bool {
        self.asked.retain(|_, question| !question.answer.is_closed());
        !self.asked.is_empty()
    }

    /// Returns the number of questions without an answer, as it changes.
    pub(super) fn open(&self) -> watch::Receiver<usize> {
        self.open.clone()
    }
}

/// A call that runs.
pub(super) struct RunningCall {
    /// Completes once it has ended, or has become a job.
    pub(super) running: Pin<Box<dyn Future<Output = CallOrJob> + Send>>,
    /// Cancels the call.
    pub(super) cancelled: CallToken,
    pub(super) outbox: Option<Arc<Outbox>>,
    pub(super) span: Span,
    pub(super) form: AnswerForm,
    /// The request of the client and the questions to it; `None` if it cannot be asked by an incomplete result.
    pub(super) repeated: Option<(RepeatedRequest, Questions)>,
    /// Cancels a call that was held when this is dropped before its end.
    pub(super) held: Option<HeldCall>,
}

/// The part of a call that was held once.
pub(super) struct HeldCall {
    pub(super) number: u64,
    pub(super) _dropped: DropGuard,
}

impl RunningCall {
    /// Runs the call until it ends or becomes a job; returns `None` if it waits for answers of its client. May be dropped and called
    /// again.
    pub(super) async fn advance(&mut self) -> Option<CallOrJob> {
        let Some((_, questions)) = &mut self.repeated else { return Some((&mut self.running).await) };
        if questions.has_asked() {
            return None;
        }
        tokio::select! {
            biased;
            called = &mut self.running => Some(called),
            () = questions.arrive() => None,
        }
    }

    /// Cancels the call, and waits for its end.
    pub(super) async fn cancel(&mut self) -> CallOrJob {
        self.cancelled.cancel();
        (&mut self.running).await
    }

    /// Returns the questions to the client, in the result of a request that it sends again with this state.
    pub(super) fn input_required(&self, state: String) -> InputRequiredResult {
        let asked = self.repeated.iter().flat_map(|(_, questions)| &questions.asked);
        let requests: InputRequests = asked.map(|(key, question)| (key.clone(), question.request.clone())).collect();
        InputRequiredResult::new(Some(requests), Some(state))
    }

    /// Gives the answers of the client to those who asked. Questions without one stay, unless the client left out answers too
    /// often.
    pub(super) fn answer(&mut self, mut responses: InputResponses) {
        let Some((_, questions)) = &mut self.repeated else { return };
        questions.rounds += 1;
        let is_last = questions.rounds >= MAX_ROUNDS;
        for (key, question) in std::mem::take(&mut questions.asked) {
            match responses.remove(&key) {
                Some(answer) => drop(question.answer.send(Ok(answer))),
                None if is_last => drop(question.answer.send(Err(TOO_MANY_ROUNDS.to_owned()))),
                None => drop(questions.asked.insert(key, question)),
            }
        }
    }
}

/// Returns the end of a call whose task is gone.
pub(super) fn lost(tool: String) -> CallOrJob {
    let error = CallError::new(ErrorKind::Host, "the server failed while the tool ran");
    CallOrJob::Ended(Box::new(CallResult {
        id: String::new(),
        tool,
        outcome: Err(error),
        metadata: Metadata::default(),
    }))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use tokio_util::sync::CancellationToken;

    use super::super::held_calls::HeldCalls;
    use super::*;

    type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Result<Value, String>> + 'a>>;

    fn places() -> HeldPlaces {
        HeldCalls::new(Arc::new(tokio::sync::Semaphore::new(1)), &CancellationToken::new()).places()
    }

    fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn ask(sender: &QuestionSender) -> AnswerFuture<'_> {
        let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
        let mut asked: AnswerFuture<'_> = Box::pin(sender.ask(ClientRequestKind::Elicitation, form));
        assert_eq!(poll(&mut asked), Poll::Pending);
        asked
    }

    fn call(questions: Questions) -> RunningCall {
        let request = RepeatedRequest { method: "tools/call", name: "t".to_owned(), arguments: json!({}) };
        RunningCall {
            running: Box::pin(std::future::pending()),
            cancelled: CallToken::new(),
            outbox: None,
            span: Span::none(),
            form: AnswerForm::default(),
            repeated: Some((request, questions)),
            held: None,
        }
    }

    fn has_to_answer(call: &mut RunningCall) -> bool {
        matches!(poll(call.advance()), Poll::Ready(None))
    }

    #[test]
    fn a_call_has_at_most_32_new_questions() {
        let (sender, _questions) = questions(places());
        let _open: Vec<_> = (0..32).map(|_| ask(&sender)).collect();
        let refused = poll(sender.ask(ClientRequestKind::Sampling, json!({"messages": [], "maxTokens": 1})));
        assert_eq!(refused, Poll::Ready(Err(TOO_MANY_QUESTIONS.to_owned())));
    }

    #[test]
    fn a_client_that_leaves_out_answers_is_asked_64_times() {
        let (sender, questions) = questions(places());
        let mut call = call(questions);
        let mut asked = ask(&sender);
        for _ in 1..64 {
            assert!(has_to_answer(&mut call));
            call.answer(InputResponses::default());
            assert_eq!(poll(&mut asked), Poll::Pending);
        }
        call.answer(InputResponses::default());
        assert_eq!(poll(&mut asked), Poll::Ready(Err(TOO_MANY_ROUNDS.to_owned())));
        assert!(!has_to_answer(&mut call));
    }

    #[test]
    fn a_question_that_was_withdrawn_is_not_asked() {
        let (sender, questions) = questions(places());
        let mut call = call(questions);
        let withdrawn = ask(&sender);
        assert!(has_to_answer(&mut call));
        drop(withdrawn);
        assert!(!has_to_answer(&mut call));
        drop(ask(&sender));
        let _asked = ask(&sender);
        assert!(has_to_answer(&mut call));
        assert_eq!(call.input_required("s".to_owned()).input_requests.unwrap().len(), 1);
    }
}
