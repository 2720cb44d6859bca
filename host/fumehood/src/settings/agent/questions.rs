//! Questions of a running agent to the program around it: for replies of its model, and whether calls may run.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_config::json::SettingError;
use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::{DeltaSink, Model, ModelError, ModelFailure, Request, Response};
use fumehood_core::policy::call::{Answer, Approver, CallQuestion, Question};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::messages::{ModelNames, read_answer, read_reply, write_question, write_request};

/// The questions of one run. They are queued, so that no thread of the host waits for the program.
pub struct Questions {
    state: Mutex<State>,
    notify: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    last_id: u32,
    /// Questions that the program has not taken yet, and withdrawals of those that it has.
    waiting: Vec<Value>,
    open: HashMap<u32, OpenQuestion>,
}

/// A question without an answer.
enum OpenQuestion {
    Reply { names: ModelNames, answer: oneshot::Sender<Result<Response, ModelError>> },
    Approval(oneshot::Sender<Answer>),
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Questions").finish_non_exhaustive()
    }
}

impl Questions {
    /// Creates an empty queue. `notify` is called when there are questions after there were none. It must not block.
    pub fn new(notify: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), notify: Box::new(notify) })
    }

    /// Returns the questions since the last time, each as JSON with its `id` and its `type`:
    ///
    /// - `model`: the `request` needs a reply of the model.
    /// - `approval`: the `call` needs approval.
    /// - `withdrawn`: the question of that id needs no answer any more.
    #[must_use]
    pub fn drain(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().waiting).iter().map(Value::to_string).collect()
    }

    /// Answers a question, as JSON. One that was withdrawn is ignored.
    ///
    /// # Errors
    /// If the answer has another form than the question needs. The question is then still open.
    pub fn answer(&self, id: u32, json: &str) -> Result<(), SettingError> {
        let mut state = self.lock();
        match state.open.get(&id) {
            Some(OpenQuestion::Reply { names, .. }) => {
                let reply = read_reply(json, names)?;
                if let Some(OpenQuestion::Reply { answer, .. }) = state.open.remove(&id) {
                    let _withdrawn = answer.send(Ok(reply));
                }
            }
            Some(OpenQuestion::Approval(_)) => {
                let given = read_answer(json)?;
                if let Some(OpenQuestion::Approval(answer)) = state.open.remove(&id) {
                    let _withdrawn = answer.send(given);
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Reports that the program cannot answer a question, and returns whether the question was open.
    ///
    /// A run whose model fails ends. A call that needs approval keeps waiting: the program is to stop the run, which would go on with any
    /// answer before that.
    pub fn fail(&self, id: u32, reason: &str) -> bool {
        let mut state = self.lock();
        if let Some(OpenQuestion::Approval(answer)) = state.open.get(&id) {
            return !answer.is_closed();
        }
        match state.open.remove(&id) {
            Some(OpenQuestion::Reply { answer, .. }) => {
                answer.send(Err(ModelError::new(ModelFailure::Unavailable, reason))).is_ok()
            }
            Some(OpenQuestion::Approval(_)) | None => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, mut state: MutexGuard<'_, State>, event: Value) {
        state.waiting.push(event);
        let is_first = state.waiting.len() == 1;
        drop(state);
        if is_first {
            (self.notify)();
        }
    }

    /// Asks a question, and returns the guard that withdraws it.
    fn ask(&self, kind: &str, key: &str, body: Value, open: OpenQuestion) -> OpenGuard<'_> {
        let mut state = self.lock();
        state.last_id = state.last_id.wrapping_add(1);
        let id = state.last_id;
        state.open.insert(id, open);
        self.push(state, json!({"id": id, "type": kind, key: body}));
        OpenGuard { questions: self, id }
    }

    async fn reply(&self, request: &Request) -> Result<Response, ModelError> {
        let names = ModelNames::of_request(request);
        let body = write_request(request, &names);
        let (answer, answered) = oneshot::channel();
        let _open = self.ask("model", "request", body, OpenQuestion::Reply { names, answer });
        let gone = |_| Err(ModelError::new(ModelFailure::Unavailable, "the program gave no reply"));
        answered.await.unwrap_or_else(gone)
    }

    async fn approval(&self, question: &CallQuestion) -> Answer {
        let (answer, answered) = oneshot::channel();
        let _open = self.ask("approval", "call", write_question(question), OpenQuestion::Approval(answer));
        answered.await.unwrap_or_else(|_| Answer::no())
    }
}

/// Withdraws a question once its call has ended.
struct OpenGuard<'a> {
    questions: &'a Questions,
    id: u32,
}

impl Drop for OpenGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.questions.lock();
        if state.open.remove(&self.id).is_some() {
            self.questions.push(state, json!({"id": self.id, "type": "withdrawn"}));
        }
    }
}

/// The program around an agent, as its model and its approver. The questions go to the run that is under way.
#[derive(Debug, Default)]
pub(super) struct Program(Mutex<Option<Arc<Questions>>>);

impl Program {
    /// Sets the questions of the run that begins.
    pub(super) fn set_run(&self, questions: Arc<Questions>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(questions);
    }

    fn questions(&self) -> Option<Arc<Questions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Model for Program {
    fn chat<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Response, ModelError>> {
        Box::pin(async move {
            match self.questions() {
                Some(questions) => questions.reply(request).await,
                None => Err(ModelError::new(ModelFailure::Setup, "no run is under way")),
            }
        })
    }
}

impl Approver for Program {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match (question, self.questions()) {
                (Question::Call(question), Some(questions)) => questions.approval(question).await,
                _ => Answer::no(),
            }
        })
    }
}
