//! Answers to calls, and the keys that they are kept for.

use std::pin::pin;
use std::sync::Arc;

use axum::response::{IntoResponse as _, Result};
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{Call, CancellationToken};
use fumehood_core::digest::Digest;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

use crate::http_api::idempotency::{self, Answer, Claim, ClaimedKey};
use crate::http_api::problem::{Problem, problem};
use crate::http_api::response::Response;
use crate::http_api::result::ResultRecord;
use crate::http_api::state::{ApiState, Caller};

/// Header of a response with the answer to an earlier request of the same `Idempotency-Key`.
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Notes for a key that its call begins: one that is stopped may have had effects.
pub(crate) fn start(claimed: Option<&mut ClaimedKey>, call: &Call) {
    if let Some(claimed) = claimed {
        let id = call.context.id.clone();
        let tool = call.tool.clone();
        let outcome = Err(CallError::cancelled());
        claimed.started(answer_of(&CallResult { id, tool, outcome, metadata: Metadata::default() }));
    }
}

/// Waits for the end of a call, which is cancelled when the server stops.
pub(crate) async fn run_until_stopped<T>(
    shared: &ApiState,
    cancelled: &CancellationToken,
    call: impl Future<Output = T>,
) -> T {
    let mut call = pin!(call);
    tokio::select! {
        biased;
        ended = &mut call => ended,
        () = shared.stopped.cancelled() => {
            cancelled.cancel();
            call.await
        }
    }
}

/// Returns the result of a call that has ended with its answer, which is kept for its key.
pub(crate) async fn finish(
    caller: &Caller,
    claimed: Option<ClaimedKey>,
    result: CallResult,
) -> (Arc<CallResult>, Answer) {
    let result = Arc::new(result);
    let written = Arc::clone(&result);
    let answer = caller.work(result.content(), move || answer_of(&written)).await.unwrap_or_else(|| {
        let error = CallError::new(ErrorKind::Host, "the server is shutting down, so the result was not sent");
        Answer::problem(&Problem::of_error(&error))
    });
    match claimed {
        Some(claimed) if may_run_again(&result) => claimed.release(),
        claimed => idempotency::keep(claimed, &answer),
    }
    (result, answer)
}

/// Returns whether the call was refused for want of a place or of a budget, so that nothing of it ran.
fn may_run_again(result: &CallResult) -> bool {
    let is_refused =
        result.error().is_some_and(|error| matches!(error.kind, ErrorKind::Quota | ErrorKind::Unavailable));
    is_refused && result.metadata.fuel_used == 0 && result.metadata.duration.is_zero()
}

/// Claims the key of a request, if it has one. `request` writes what has to be the same when it is sent again.
///
/// # Errors
/// The response to a request that is not to be run.
pub(crate) fn claim(
    shared: &ApiState,
    caller: &Caller,
    headers: &HeaderMap,
    request: impl FnOnce() -> String,
) -> Result<Option<ClaimedKey>> {
    let key = match idempotency::key_of(headers) {
        Ok(Some(key)) => key,
        Ok(None) => return Ok(None),
        Err(detail) => return Err(problem(StatusCode::BAD_REQUEST, detail).into()),
    };
    let request = Digest::of(request().as_bytes());
    match shared.answers.claim(&caller.tenant.name, key, request) {
        Claim::Run(claimed) => Ok(Some(claimed)),
        Claim::Answered(answer) => Err(replay(answer).into()),
        Claim::Running => {
            let detail = "the request with this Idempotency-Key is still running; try again in a second";
            let mut response = problem(StatusCode::CONFLICT, detail);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            Err(response.into())
        }
        Claim::Different => Err(key_of_another_request().into()),
    }
}

/// Returns the response to a request whose key has an answer.
pub(crate) fn replay(answer: Answer) -> Response {
    let mut response = answer.into_response();
    response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    response
}

/// Returns the response to a request whose key stands for another one.
pub(crate) fn key_of_another_request() -> Response {
    let detail = "this Idempotency-Key was used for another request; send a new key";
    problem(StatusCode::UNPROCESSABLE_ENTITY, detail)
}

/// Creates the answer to a call: its record, or problem details with its record if it failed.
fn answer_of(result: &CallResult) -> Answer {
    let record = ResultRecord::new(result);
    match result.error() {
        None => Answer::json(StatusCode::OK, &record),
        Some(error) => Answer::problem(&Problem::of_error(error).with_call(record)),
    }
}
