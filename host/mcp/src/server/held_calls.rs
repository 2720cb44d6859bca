//! The calls that wait for answers of their clients, each under a state that the client sends back once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use fumehood_core::digest::Digest;
use fumehood_server::CallOrJob;
use rmcp::model::{ErrorData, InputRequiredResult, InputResponses};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::running_call::{HeldCall, RepeatedRequest, RunningCall, lost};

/// Maximum number of calls of one client that wait for its answers.
const MAX_HELD_CALLS: usize = 16;
/// Maximum number of calls of all clients of a server that wait for answers.
pub(super) const MAX_ALL_HELD_CALLS: usize = 1024;
/// Time for which the end of a call is kept for a client that has not come back.
const RESULT_TIME: Duration = Duration::from_secs(60);

const TOO_MANY: &str =
    "16 calls of this client are waiting for its answers, the maximum; it must answer one of them first";
const TOO_MANY_OF_ALL: &str = "too many calls are waiting for answers of clients; try again later";
const UNKNOWN_STATE: &str = "no call is waiting for this answer: its `requestState` is unknown, was already used, or \
                             has expired after the server's `max_timeout`; start again without `requestState`";
const OTHER_REQUEST: &str = "the call that is waiting for this answer has a different name or different arguments; \
                             repeat the same request with `requestState` and `inputResponses`";

/// The room for calls that wait for answers: that of one client, and that of all.
#[derive(Clone)]
pub(super) struct HeldPlaces {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

/// The place of a call that waits, or waited, for an answer.
pub(super) struct HeldPlace {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl HeldPlaces {
    /// Takes a place.
    ///
    /// # Errors
    /// A sentence, if there is none.
    pub(super) fn take(&self) -> Result<HeldPlace, &'static str> {
        let own = Arc::clone(&self.own).try_acquire_owned().map_err(|_| TOO_MANY)?;
        let all = Arc::clone(&self.all).try_acquire_owned().map_err(|_| TOO_MANY_OF_ALL)?;
        Ok(HeldPlace { _own: own, _all: all })
    }
}

/// The calls of one client that wait for its answers. A client is a connection, and over HTTP a tenant.
pub(crate) struct HeldCalls {
    /// The calls by the digests of their states, so that the time of a comparison says nothing about a state.
    calls: Mutex<HashMap<Digest, RunningCall>>,
    places: HeldPlaces,
    last: AtomicU64,
    /// Cancelled once the client is gone.
    closed: CancellationToken,
    _dropped: DropGuard,
}

impl HeldCalls {
    /// Creates the calls of a client that is gone once `closed` is cancelled. `all` are the places of all clients.
    pub(super) fn new(all: Arc<Semaphore>, closed: &CancellationToken) -> Arc<Self> {
        let closed = closed.child_token();
        let places = HeldPlaces { own: Arc::new(Semaphore::new(MAX_HELD_CALLS)), all };
        let dropped = closed.clone().drop_guard();
        Arc::new(Self { calls: Mutex::default(), places, last: AtomicU64::new(0), closed, _dropped: dropped })
    }

    /// Returns the room for calls of the client.
    pub(super) fn places(&self) -> HeldPlaces {
        self.places.clone()
    }

    /// Lets a call go on in a task of its own, and returns its questions, with the state under which it is found.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub(super) fn hold(self: &Arc<Self>, mut call: RunningCall) -> Result<InputRequiredResult, ErrorData> {
        let mut bits = [0; 32];
        getrandom::fill(&mut bits)
            .map_err(|_| ErrorData::internal_error("the system returned no random bytes for a call id", None))?;
        let state = BASE64_URL_SAFE_NO_PAD.encode(bits);
        let asked = call.input_required(state.clone());
        if call.held.is_none() {
            self.detach(&mut call);
        }
        self.lock().insert(Digest::of(state.as_bytes()), call);
        Ok(asked)
    }

    /// Moves a call into a task, which cancels it when its client is gone.
    fn detach(self: &Arc<Self>, call: &mut RunningCall) {
        let Some((request, questions)) = &call.repeated else { return };
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = oneshot::channel::<CallOrJob>();
        let tool = request.name.clone();
        let ended = Box::pin(async move { told.await.unwrap_or_else(|_| lost(tool)) });
        let mut running = std::mem::replace(&mut call.running, ended);
        let dropped = CancellationToken::new();
        call.held = Some(HeldCall { number, _dropped: dropped.clone().drop_guard() });
        let cancelled = call.cancelled.clone();
        let mut open = questions.open();
        let table = Arc::downgrade(self);
        let closed = self.closed.clone();
        tokio::spawn(async move {
            let called = tokio::select! {
                called = &mut running => called,
                () = either(&closed, &dropped) => {
                    cancelled.cancel();
                    running.await
                }
            };
            let _resumed = tell.send(called);
            let expiring = async {
                // A call that has become a job still waits for its answer.
                drop(open.wait_for(|open| *open == 0).await);
                tokio::time::sleep(RESULT_TIME).await;
            };
            tokio::select! {
                () = expiring => {}
                () = either(&closed, &dropped) => {}
            }
            if let Some(table) = table.upgrade() {
                table.forget(number);
            }
        });
    }

    /// Returns the call that waits under this state, with the answers of its client. The state is used up.
    ///
    /// # Errors
    /// If none waits, or the request is another one.
    pub(super) fn resume(
        &self,
        state: &str,
        request: &RepeatedRequest,
        responses: InputResponses,
    ) -> Result<RunningCall, ErrorData> {
        let key = Digest::of(state.as_bytes());
        let mut calls = self.lock();
        let waiting = calls.get(&key).and_then(|call| call.repeated.as_ref());
        let (awaited, _) = waiting.ok_or_else(|| ErrorData::invalid_params(UNKNOWN_STATE, None))?;
        if awaited != request {
            return Err(ErrorData::invalid_params(OTHER_REQUEST, None));
        }
        let resumed = calls.remove(&key);
        drop(calls);
        let mut call = resumed.ok_or_else(|| ErrorData::invalid_params(UNKNOWN_STATE, None))?;
        call.answer(responses);
        Ok(call)
    }

    /// Drops a call that its client did not come back for.
    fn forget(&self, number: u64) {
        self.lock().retain(|_, call| call.held.as_ref().is_none_or(|held| held.number != number));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, RunningCall>> {
        // No code that holds the lock can panic half-way.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn either(one: &CancellationToken, other: &CancellationToken) {
    tokio::select! {
        () = one.cancelled() => {}
        () = other.cancelled() => {}
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::call::CancellationToken as CallToken;
    use serde_json::json;
    use tracing::Span;

    use super::super::running_call::questions;
    use super::super::tools::catalogue::AnswerForm;
    use super::*;

    fn request() -> RepeatedRequest {
        RepeatedRequest { method: "tools/call", name: "t".to_owned(), arguments: json!({}) }
    }

    #[test]
    fn all_clients_together_have_places_too() {
        let all = Arc::new(Semaphore::new(1));
        let places = || HeldCalls::new(Arc::clone(&all), &CancellationToken::new()).places();
        let taken = places().take();
        assert_eq!(places().take().err(), Some(TOO_MANY_OF_ALL));
        drop(taken);
        assert_eq!(places().take().err(), None);
    }

    fn hold_ended(held: &Arc<HeldCalls>) -> String {
        let (_, questions) = questions(held.places());
        let call = RunningCall {
            running: Box::pin(std::future::ready(lost("t".to_owned()))),
            cancelled: CallToken::new(),
            outbox: None,
            span: Span::none(),
            form: AnswerForm::default(),
            repeated: Some((request(), questions)),
            held: None,
        };
        held.hold(call).unwrap().request_state.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_is_kept_for_a_minute() {
        let held = HeldCalls::new(Arc::new(Semaphore::new(1)), &CancellationToken::new());
        let resume = |state: &str| held.resume(state, &request(), InputResponses::default()).map(|_| ());
        let states = [hold_ended(&held), hold_ended(&held)];
        tokio::time::sleep(RESULT_TIME - Duration::from_secs(1)).await;
        resume(&states[0]).unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(resume(&states[1]).unwrap_err().message, UNKNOWN_STATE);
    }
}
