//! Requests about sessions and approvals.

#![allow(unused_qualifications, reason = "the macro of a path writes the whole name of its parameters")]

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Result};
use fumehood_core::text::sanitize::printable;
use http::header::{HeaderValue, LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use tokio_util::bytes::Bytes;
use utoipa::ToSchema;

use crate::http_api::call_answer::claim;
use crate::http_api::extract::{Name, parse};
use crate::http_api::idempotency::{self, Answer};
use crate::http_api::negotiation::Form;
use crate::http_api::problem::problem;
use crate::http_api::response::{self, Response};
use crate::http_api::running_message::RunningMessage;
use crate::http_api::sessions::store::{MAX_SESSIONS, Session, SessionDetail, SessionSummary};
use crate::http_api::sessions::{NewSession, SessionAgents, SessionApprovals, SessionError, SessionReply};
use crate::http_api::state::{ApiState, Caller};

/// A new session. It has no settings.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateSession {}

/// A message of the user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendMessage {
    /// The text.
    text: String,
}

/// The open sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionList {
    /// The sessions, the newest first.
    sessions: Vec<SessionSummary>,
}

/// Opens a session.
#[utoipa::path(
    post, path = "/v1/sessions", operation_id = "createSession", tag = "sessions",
    params(("Idempotency-Key" = Option<String>, Header, description = "A key under which one session is opened")),
    request_body = CreateSession,
    responses((status = 201, description = "The session", body = SessionSummary))
)]
pub(crate) async fn create(
    State(shared): State<Arc<ApiState>>,
    caller: Caller,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let agents = agents(&shared)?;
    if !body.is_empty() {
        parse::<CreateSession>(&body)?;
    }
    restore(&shared, &caller).await?;
    let claimed = claim(&shared, &caller, &headers, || "POST /v1/sessions".to_owned())?;
    let tenant = &caller.tenant.name;
    let Some((number, id)) = shared.sessions.reserve(tenant) else {
        let detail = format!("there are already {MAX_SESSIONS} open sessions; delete one of them");
        return Err(problem(StatusCode::TOO_MANY_REQUESTS, detail).into());
    };
    let session = Arc::new(open(&shared, &caller, agents.as_ref(), id.clone())?);
    shared.sessions.add(number, Arc::clone(&session));
    let mut answer = Answer::json(StatusCode::CREATED, &session.summary());
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/sessions/{id}")) {
        answer.headers.insert(LOCATION, location);
    }
    idempotency::keep(claimed, &answer);
    Ok(answer.into_response())
}

/// Opens a session with an agent of its own.
fn open(shared: &ApiState, caller: &Caller, agents: &dyn SessionAgents, id: String) -> Result<Session, SessionError> {
    let tenant = Arc::clone(&caller.tenant.name);
    let approvals = SessionApprovals::new(shared.approvals.clone(), Arc::clone(&tenant), id.clone());
    let tools = shared.options.session_tools.as_ref();
    let agent = agents.create(NewSession {
        id: id.clone(),
        tenant: Arc::clone(&tenant),
        actor: shared.actor(caller),
        tools: tools.map_or_else(|| Arc::clone(&caller.tools), |tools| tools.of(&caller.tenant)),
        approvals: approvals.clone(),
    })?;
    Ok(Session::new(id, tenant, agent, approvals))
}

/// Opens the saved sessions of a tenant, once.
pub(crate) async fn restore(shared: &ApiState, caller: &Caller) -> Result<(), SessionError> {
    let Some(agents) = &shared.options.sessions else { return Ok(()) };
    let restored = shared.sessions.restore_cell(&caller.tenant.name);
    restored.get_or_try_init(|| open_saved(shared, caller, agents.as_ref())).await?;
    Ok(())
}

async fn open_saved(shared: &ApiState, caller: &Caller, agents: &dyn SessionAgents) -> Result<(), SessionError> {
    let mut sessions = Vec::new();
    for info in agents.saved(Arc::clone(&caller.tenant.name), MAX_SESSIONS).await?.into_iter().rev() {
        let session = open(shared, caller, agents, info.id)?;
        sessions.push(Arc::new(session.restored(info.created_at, info.conversation)));
    }
    // All or none of them, because after an error the next request tries again.
    sessions.into_iter().for_each(|session| shared.sessions.add_saved(session));
    Ok(())
}

async fn find(shared: &ApiState, caller: &Caller, id: &str) -> Result<Arc<Session>> {
    restore(shared, caller).await?;
    Ok(shared.sessions.find(&caller.tenant.name, id).ok_or_else(no_session)?)
}

/// Lists the open sessions.
#[utoipa::path(
    get, path = "/v1/sessions", operation_id = "listSessions", tag = "sessions",
    responses((status = 200, description = "The sessions", body = SessionList))
)]
pub(crate) async fn list(State(shared): State<Arc<ApiState>>, caller: Caller) -> Result<Response> {
    restore(&shared, &caller).await?;
    let sessions = shared.sessions.list(&caller.tenant.name);
    Ok(response::json(&SessionList { sessions: sessions.iter().map(|session| session.summary()).collect() }))
}

/// Returns a session with its conversation.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", operation_id = "getSession", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session")),
    responses((status = 200, description = "The session", body = SessionDetail))
)]
pub(crate) async fn get(State(shared): State<Arc<ApiState>>, caller: Caller, Name(id): Name) -> Result<Response> {
    Ok(response::json(&find(&shared, &caller, &id).await?.detail()))
}

/// Closes a session, and removes what is saved of it. A message that is being answered is cancelled.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", operation_id = "deleteSession", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session")),
    responses((status = 204, description = "The session is closed"))
)]
pub(crate) async fn remove(State(shared): State<Arc<ApiState>>, caller: Caller, Name(id): Name) -> Result<StatusCode> {
    restore(&shared, &caller).await?;
    let session = shared.sessions.remove(&caller.tenant.name, &id).ok_or_else(no_session)?;
    // After the message that was cancelled.
    session.agent.lock().await.remove().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sends a message to the agent of a session.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/messages", operation_id = "sendMessage", tag = "sessions",
    params(
        ("id" = String, Path, description = "The id of the session"),
        ("Idempotency-Key" = Option<String>, Header, description = "A key under which the message is answered once"),
    ),
    request_body = SendMessage,
    responses(
        (status = 200, description = "The reply, or with `Accept: text/event-stream` the events of it",
            content((SessionReply = "application/json"), (String = "text/event-stream"))),
    )
)]
pub(crate) async fn send(
    State(shared): State<Arc<ApiState>>,
    caller: Caller,
    Name(id): Name,
    form: Form,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let session = find(&shared, &caller, &id).await?;
    let SendMessage { text } = parse(&body)?;
    if text.trim().is_empty() {
        return Err(problem(StatusCode::UNPROCESSABLE_ENTITY, "`text` is blank; expected the message").into());
    }
    let claimed = claim(&shared, &caller, &headers, || format!("POST /v1/sessions/{id}/messages\n{text}"))?;
    let running = RunningMessage::begin(&shared, &session, Some(text), claimed).ok_or_else(busy)?;
    Ok(running.respond(form, &id).await)
}

/// Goes on with the message of a session that waited for approvals, or was being answered when the server ended.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/resume", operation_id = "resumeSession", tag = "sessions",
    params(
        ("id" = String, Path, description = "The id of the session"),
        ("Idempotency-Key" = Option<String>, Header, description = "A key under which the session is resumed once"),
    ),
    responses(
        (status = 200, description = "The reply, or with `Accept: text/event-stream` the events of it",
            content((SessionReply = "application/json"), (String = "text/event-stream"))),
    )
)]
pub(crate) async fn resume(
    State(shared): State<Arc<ApiState>>,
    caller: Caller,
    Name(id): Name,
    form: Form,
    headers: HeaderMap,
) -> Result<Response> {
    let session = find(&shared, &caller, &id).await?;
    let claimed = claim(&shared, &caller, &headers, || format!("POST /v1/sessions/{id}/resume"))?;
    let running = RunningMessage::begin(&shared, &session, None, claimed).ok_or_else(busy)?;
    Ok(running.respond(form, &id).await)
}

/// Returns the agents of this server.
fn agents(shared: &ApiState) -> Result<&Arc<dyn SessionAgents>> {
    let detail = "this server has no model, so it has no sessions; its operator can set one in [model]";
    Ok(shared.options.sessions.as_ref().ok_or_else(|| problem(StatusCode::NOT_FOUND, detail))?)
}

impl IntoResponse for SessionError {
    fn into_response(self) -> Response {
        problem(StatusCode::INTERNAL_SERVER_ERROR, printable(&self.0))
    }
}

fn no_session() -> Response {
    problem(StatusCode::NOT_FOUND, "unknown session; open one with POST /v1/sessions")
}

fn busy() -> Response {
    let detail = "the session is answering another message, or was closed; wait for the end of that message";
    let mut response = problem(StatusCode::CONFLICT, detail);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
