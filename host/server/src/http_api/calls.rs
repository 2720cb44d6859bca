//! Calls: making, listing and cancelling them.

#![allow(unused_qualifications, reason = "the macro of a path writes the whole name of its parameters")]

use std::future::{poll_fn, ready};
use std::sync::Arc;
use std::task::Poll;

use axum::extract::State;
use axum::response::{IntoResponse, Result};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::result::CallResult;
use fumehood_core::call::{Call, CallContext, CancellationToken, Observer};
use fumehood_core::text::sanitize::{printable, truncate_str};
use fumehood_core::time::Timestamp;
use http::header::USER_AGENT;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::bytes::Bytes;
use tracing::Instrument as _;
use utoipa::{IntoParams, ToSchema};

use crate::RunningCall;
use crate::http_api::call_answer::{claim, finish, run_until_stopped, start};
use crate::http_api::extract::{Name, Query};
use crate::http_api::history::{CallDetail, CallList, CallQuery, CallStore, CallSummary, PortError, RUNNING_STATUS};
use crate::http_api::idempotency::{Answer, ClaimedKey};
use crate::http_api::job_resource::{self, JobDetail};
use crate::http_api::list_query::{page_limit, parse_cursor};
use crate::http_api::negotiation::Form;
use crate::http_api::preferences::Preferences;
use crate::http_api::problem::problem;
use crate::http_api::response::{self, Response};
use crate::http_api::result::ResultRecord;
use crate::http_api::state::{ApiState, Caller};
use crate::http_api::stream::{EventBody, EventQueue, event};
use crate::http_api::tools::unknown;

/// Maximum length of a client's name in records, in bytes.
const MAX_CLIENT_NAME_BYTES: usize = 128;
/// Maximum number of calls in the answer to an id that several have.
const MAX_CHOICES: usize = 100;
/// Prefix of a cursor; other texts are rejected.
const CURSOR_PREFIX: &str = "before:";

/// Calls a tool with the body as its arguments.
#[utoipa::path(
    post, path = "/v1/tools/{name}/calls", operation_id = "callTool", tag = "calls",
    params(
        ("name" = String, Path, description = "The full name of the tool"),
        ("Idempotency-Key" = Option<String>, Header, description = "A key under which the call is run once"),
        ("Prefer" = Option<String>, Header,
            description = "`respond-async` requests a job at once, `respond-async, wait=N` after N seconds (RFC 7240)"),
        ("traceparent" = Option<String>, Header, description = "W3C trace context; the response has the trace context \
                                                                of the request's span"),
    ),
    request_body = serde_json::Value,
    responses(
        (status = 200, description = "The result, or with `Accept: text/event-stream` the events of the call",
            content((ResultRecord<'static> = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The call is a job at `Location`", body = JobDetail<'static>),
    )
)]
pub(crate) async fn create(
    State(shared): State<Arc<ApiState>>,
    caller: Caller,
    Name(name): Name,
    form: Form,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    // Nobody else has the body by now, so that it is not copied.
    let not_text = |_| problem(StatusCode::BAD_REQUEST, "the arguments are not UTF-8; send JSON in UTF-8");
    let arguments = String::from_utf8(body.into()).map_err(not_text)?;
    if caller.tools.find(&name).is_none() {
        return Err(unknown(&caller, &name).into());
    }
    let claimed = claim(&shared, &caller, &headers, || format!("{name}\n{arguments}"))?;
    let preferences = Preferences::parse(&headers);
    let claimed = job_resource::find_job_of_key(&shared, &caller, claimed, form, preferences).await?;
    let id = shared.tools.running().next_id();
    let client = client_name(&headers);
    let execution = Some(Arc::from(id.as_str()));
    let context =
        CallContext { id: id.clone(), execution, actor: shared.actor(&caller), client, ..CallContext::default() };
    let call = Call { tool: name, arguments: arguments.into(), context };
    Ok(match (form, &shared.options.jobs) {
        (Form::Json, Some(jobs)) if preferences.respond_async => {
            job_resource::call(&shared, jobs, &caller, call, claimed, preferences).await
        }
        (Form::Json, _) => run(&shared, &caller, call, claimed).await.1.into_response(),
        (Form::Events, _) => {
            let queue = Arc::new(EventQueue::default());
            let observer = Some(Arc::clone(&queue) as Arc<dyn Observer>);
            let first = event("started", &json!({ "id": id, "tool": call.tool }));
            let call = Call { context: CallContext { observer, ..call.context }, ..call };
            let running = async move {
                let (result, _answer) = run(&shared, &caller, call, claimed).await;
                let written = Arc::clone(&result);
                let write = move || event("result", &ResultRecord::new(&written));
                caller.work(result.content(), write).await.unwrap_or_default()
            };
            // The body is polled after the response began, outside of the request's span.
            let ended = begin(Box::pin(running.in_current_span())).await;
            response::events(EventBody::new(first, queue, ended))
        }
    })
}

/// Polls a future once where the request is answered, so that its arguments are checked there; the body of a response is polled on
/// the thread that serves connections.
async fn begin(mut future: BoxFuture<'static, String>) -> BoxFuture<'static, String> {
    match poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
        Poll::Ready(output) => Box::pin(ready(output)),
        Poll::Pending => future,
    }
}

/// Runs a call until it ends, is cancelled, or the server stops; and keeps its answer for its key.
async fn run(
    shared: &ApiState,
    caller: &Caller,
    call: Call,
    mut claimed: Option<ClaimedKey>,
) -> (Arc<CallResult>, Answer) {
    let id = call.context.id.clone();
    let cancelled = CancellationToken::new();
    start(claimed.as_mut(), &call);
    let call = Call { context: CallContext { cancelled: Some(cancelled.clone()), ..call.context }, ..call };
    let result = run_until_stopped(shared, &cancelled, caller.tools.dispatch(call)).await;
    // A layer may have named the call itself; the client knows it by this id.
    let result = CallResult { id, ..result };
    finish(caller, claimed, result).await
}

/// Returns the name that a client gives itself.
fn client_name(headers: &HeaderMap) -> Option<String> {
    let name = headers.get(USER_AGENT)?.to_str().ok()?;
    Some(truncate_str(&printable(name), MAX_CLIENT_NAME_BYTES).to_owned())
}

/// Filters of a list of calls, and its page.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParameters {
    /// Only calls of this tool, by its full name.
    tool: Option<String>,
    /// Only calls of this outcome: `running`, `ok`, or the kind of a failure.
    outcome: Option<String>,
    /// Only calls since this time, in milliseconds since 1970.
    since: Option<u64>,
    /// The `next` of the page before.
    cursor: Option<String>,
    /// Maximum number of items, 1 to 500.
    limit: Option<usize>,
}

impl ListParameters {
    fn into_query(self) -> Result<CallQuery> {
        let before = parse_cursor(self.cursor.as_deref(), CURSOR_PREFIX, |position| position.parse().ok())?;
        Ok(CallQuery {
            tool: self.tool,
            status: self.outcome,
            since: self.since.map(Timestamp),
            before,
            limit: page_limit(self.limit)?,
            ..CallQuery::default()
        })
    }
}

/// A page of calls.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallPage {
    /// The calls, the newest first.
    calls: Vec<CallSummary>,
    /// The cursor of the next page, if there may be one. A page may have fewer calls than its limit, or none, and a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists calls, the newest first: those of the event log where there is one, and otherwise the running ones.
#[utoipa::path(
    get, path = "/v1/calls", operation_id = "listCalls", tag = "calls", params(ListParameters),
    responses((status = 200, description = "A page of calls", body = CallPage))
)]
pub(crate) async fn list(
    State(shared): State<Arc<ApiState>>,
    caller: Caller,
    Query(parameters): Query<ListParameters>,
) -> Result<Response> {
    let actor = shared.actor(&caller).as_deref().map(str::to_owned);
    let query = CallQuery { actor, ..parameters.into_query()? };
    let CallList { calls, next } = match &shared.options.calls {
        Some(calls) => calls.list(query).await?,
        None => running_calls(&shared, &caller, &query),
    };
    let next = next.map(|next| format!("{CURSOR_PREFIX}{next}"));
    Ok(response::json(&CallPage { calls, next }))
}

/// Returns the running calls of a tenant that match, the newest first.
fn running_calls(shared: &ApiState, caller: &Caller, query: &CallQuery) -> CallList {
    let own = Some(&*caller.tenant.name);
    let positions = shared.tools.running().positions();
    let before = query.before.map(|position| positions.decode(position));
    let query = &CallQuery { before, ..query.clone() };
    let calls = shared.tools.running().list(usize::MAX, |tenant, _| tenant == own);
    let calls = calls.into_iter().rev().map(CallSummary::from);
    let calls: Vec<_> = calls.filter(|call| matches(call, query)).take(query.limit).collect();
    let next = calls.last().filter(|_| calls.len() == query.limit).map(|last| positions.encode(last.position));
    CallList { calls, next }
}

impl From<RunningCall> for CallSummary {
    fn from(call: RunningCall) -> Self {
        Self {
            id: call.id,
            model_call: call.model_call.as_ref().map(ToString::to_string),
            tool: call.tool.to_string(),
            status: RUNNING_STATUS.to_owned(),
            started_at_ms: call.started_at.0,
            duration_ms: None,
            actor: call.actor.as_ref().map(ToString::to_string),
            client: call.client.as_ref().map(ToString::to_string),
            position: call.number,
        }
    }
}

fn matches(call: &CallSummary, query: &CallQuery) -> bool {
    query.tool.as_ref().is_none_or(|tool| *tool == call.tool)
        && query.status.as_ref().is_none_or(|status| *status == call.status)
        && query.since.is_none_or(|since| call.started_at_ms >= since.0)
        && query.before.is_none_or(|before| call.position < before)
}

impl IntoResponse for PortError {
    fn into_response(self) -> Response {
        // With `Retry-After`: a database comes back without the client's help.
        problem(StatusCode::SERVICE_UNAVAILABLE, format!("cannot read the event log now: {}", self.0))
    }
}

/// The calls that one id may mean.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallChoice {
    /// The calls for which a client or a model chose the id, the newest first and at most 100. Each has an `id` of its own.
    calls: Vec<CallSummary>,
}

/// Returns the call with this id: from the event log where there is one, and otherwise if it is running. An id that a client or a
/// model chose is answered with its call, and if it has several, with the list of them.
#[utoipa::path(
    get, path = "/v1/calls/{id}", operation_id = "getCall", tag = "calls",
    params(("id" = String, Path, description = "The id of the call, or its `model_call`")),
    responses(
        (status = 200, description = "The call", body = CallDetail),
        (status = 300, description = "Several calls have this `model_call`: request one of them by its `id`", body = CallChoice),
    )
)]
pub(crate) async fn get(State(shared): State<Arc<ApiState>>, caller: Caller, Name(id): Name) -> Result<Response> {
    Ok(match find(&shared, &caller, &id).await? {
        CallLookup::Recorded(detail) => response::json(&detail),
        CallLookup::Running(call) => response::json(&call),
        CallLookup::Several(calls) => response::json_with(StatusCode::MULTIPLE_CHOICES, &CallChoice { calls }),
        CallLookup::Nothing => no_call(),
    })
}

/// The calls of an id.
enum CallLookup {
    Nothing,
    Recorded(Box<CallDetail>),
    Running(CallSummary),
    Several(Vec<CallSummary>),
}

/// Finds the call with this id, or else those for which a client or a model chose it.
async fn find(shared: &ApiState, caller: &Caller, id: &str) -> Result<CallLookup, PortError> {
    let store = shared.options.calls.as_deref();
    let actor = shared.actor(caller).as_deref().map(str::to_owned);
    if let Some(detail) = find_recorded(store, id, &actor).await? {
        return Ok(CallLookup::Recorded(Box::new(detail)));
    }
    let running = shared.tools.running().find(&caller.tenant.name, id);
    let mut calls: Vec<CallSummary> = running.into_iter().rev().map(CallSummary::from).collect();
    if let Some(store) = store.filter(|_| calls.iter().all(|call| call.id != id)) {
        let query = CallQuery {
            actor: actor.clone(),
            model_call: Some(id.to_owned()),
            limit: MAX_CHOICES,
            ..CallQuery::default()
        };
        let older = store.list(query).await?.calls;
        // One that waits for a place is not recorded yet.
        calls.retain(|call| older.iter().all(|older| older.id != call.id));
        calls.extend(older);
    }
    calls.truncate(MAX_CHOICES);
    Ok(match calls.as_slice() {
        [] => CallLookup::Nothing,
        [call] => match find_recorded(store, &call.id, &actor).await? {
            Some(detail) => CallLookup::Recorded(Box::new(detail)),
            None => CallLookup::Running(call.clone()),
        },
        _ => CallLookup::Several(calls),
    })
}

async fn find_recorded(
    store: Option<&dyn CallStore>,
    id: &str,
    actor: &Option<String>,
) -> Result<Option<CallDetail>, PortError> {
    match store {
        Some(store) => store.find(id.to_owned(), actor.clone()).await,
        None => Ok(None),
    }
}

/// The query of a request that cancels a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelParameters {
    by: Option<Stopper>,
}

/// A person, unlike the program or the client that made the call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stopper {
    Operator,
}

/// Cancels a running call. Its own response has the kind `cancelled`.
#[utoipa::path(
    delete, path = "/v1/calls/{id}", operation_id = "cancelCall", tag = "calls",
    params(
        ("id" = String, Path, description = "The id of the call, or its `model_call` if no other running call has the same"),
        ("by" = Option<String>, Query, description = "`operator` if a person stops the call of a program; its response says so"),
    ),
    responses(
        (status = 202, description = "The call is being stopped"),
        (status = 300, description = "Several running calls have this `model_call`, and none was stopped", body = CallChoice),
    )
)]
pub(crate) async fn cancel(
    State(shared): State<Arc<ApiState>>,
    caller: Caller,
    Name(id): Name,
    Query(parameters): Query<CancelParameters>,
) -> Response {
    let running = shared.tools.running();
    let found = running.find(&caller.tenant.name, &id);
    match found.as_slice() {
        [] => no_call(),
        [call] => {
            let is_running = match parameters.by {
                Some(Stopper::Operator) => running.stop(call.number),
                None => running.cancel(call.number),
            };
            if is_running { response::empty(StatusCode::ACCEPTED) } else { no_call() }
        }
        _ => {
            let calls = found.into_iter().rev().take(MAX_CHOICES).map(CallSummary::from).collect();
            response::json_with(StatusCode::MULTIPLE_CHOICES, &CallChoice { calls })
        }
    }
}

fn no_call() -> Response {
    let detail = "unknown call; without an event log, only running calls are known";
    problem(StatusCode::NOT_FOUND, detail)
}
