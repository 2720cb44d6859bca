//! Requests about sessions and approvals.

#![allow(unused_qualifications, reason = "the macro of a path writes the whole name of its parameters")]

use std::sync::Arc;

use fumehood_core::text::sanitize::printable;
use http::header::{HeaderValue, LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_util::bytes::Bytes;
use utoipa::ToSchema;

use crate::http_api::call_answer::claim;
use crate::http_api::idempotency::{self, Answer};
use crate::http_api::negotiation::{Form, negotiate};
use crate::http_api::problem::{Problem, problem};
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
pub(crate) async fn create(shared: &ApiState, caller: &Caller, headers: &HeaderMap, body: &Bytes) -> Response {
    let agents = match agents(shared) {
        Ok(agents) => agents,
        Err(response) => return *response,
    };
    if !body.is_empty()
        && let Err(response) = parse::<CreateSession>(body)
    {
        return *response;
    }
    if let Err(response) = restore(shared, caller).await {
        return *response;
    }
    let claimed = match claim(shared, caller, headers, || "POST /v1/sessions".to_owned()) {
        Ok(claimed) => claimed,
        Err(response) => return *response,
    };
    let tenant = &caller.tenant.name;
    let Some((number, id)) = shared.sessions.reserve(tenant) else {
        let detail = format!("there are already {MAX_SESSIONS} open sessions; delete one of them");
        return problem(StatusCode::TOO_MANY_REQUESTS, detail);
    };
    let session = match open(shared, caller, agents.as_ref(), id.clone()) {
        Ok(session) => Arc::new(session),
        Err(error) => return error_response(&error),
    };
    shared.sessions.add(number, Arc::clone(&session));
    let mut answer = Answer::json(StatusCode::CREATED, &session.summary());
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/sessions/{id}")) {
        answer.headers.insert(LOCATION, location);
    }
    idempotency::keep(claimed, &answer);
    answer.into_response()
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
pub(crate) async fn restore(shared: &ApiState, caller: &Caller) -> Result<(), Box<Response>> {
    let Some(agents) = &shared.options.sessions else { return Ok(()) };
    let restored = shared.sessions.restore_cell(&caller.tenant.name);
    restored
        .get_or_try_init(|| open_saved(shared, caller, agents.as_ref()))
        .await
        .map_err(|error| Box::new(error_response(&error)))?;
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

async fn find(shared: &ApiState, caller: &Caller, id: &str) -> Result<Arc<Session>, Box<Response>> {
    restore(shared, caller).await?;
    shared.sessions.find(&caller.tenant.name, id).ok_or_else(|| Box::new(no_session()))
}

/// Lists the open sessions.
#[utoipa::path(
    get, path = "/v1/sessions", operation_id = "listSessions", tag = "sessions",
    responses((status = 200, description = "The sessions", body = SessionList))
)]
pub(crate) async fn list(shared: &ApiState, caller: &Caller) -> Response {
    if let Err(response) = restore(shared, caller).await {
        return *response;
    }
    let sessions = shared.sessions.list(&caller.tenant.name);
    response::json(&SessionList { sessions: sessions.iter().map(|session| session.summary()).collect() })
}

/// Returns a session with its conversation.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", operation_id = "getSession", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session")),
    responses((status = 200, description = "The session", body = SessionDetail))
)]
pub(crate) async fn get(shared: &ApiState, caller: &Caller, id: &str) -> Response {
    match find(shared, caller, id).await {
        Ok(session) => response::json(&session.detail()),
        Err(response) => *response,
    }
}

/// Closes a session, and removes what is saved of it. A message that is being answered is cancelled.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", operation_id = "deleteSession", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session")),
    responses((status = 204, description = "The session is closed"))
)]
pub(crate) async fn remove(shared: &ApiState, caller: &Caller, id: &str) -> Response {
    if let Err(response) = restore(shared, caller).await {
        return *response;
    }
    let Some(session) = shared.sessions.remove(&caller.tenant.name, id) else { return no_session() };
    // After the message that was cancelled.
    match session.agent.lock().await.remove().await {
        Ok(()) => response::empty(StatusCode::NO_CONTENT),
        Err(error) => error_response(&error),
    }
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
pub(crate) async fn send(shared: &ApiState, caller: &Caller, id: &str, headers: &HeaderMap, body: &Bytes) -> Response {
    let Some(form) = negotiate(headers, &[Form::Json, Form::Events]) else {
        let detail = "the reply is application/json or text/event-stream; accept one of them";
        return problem(StatusCode::NOT_ACCEPTABLE, detail);
    };
    let session = match find(shared, caller, id).await {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let SendMessage { text } = match parse(body) {
        Ok(message) => message,
        Err(response) => return *response,
    };
    if text.trim().is_empty() {
        return problem(StatusCode::UNPROCESSABLE_ENTITY, "`text` is blank; expected the message");
    }
    let claimed = match claim(shared, caller, headers, || format!("POST /v1/sessions/{id}/messages\n{text}")) {
        Ok(claimed) => claimed,
        Err(response) => return *response,
    };
    let Some(running) = RunningMessage::begin(shared, &session, Some(text), claimed) else { return busy() };
    running.respond(form, id).await
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
pub(crate) async fn resume(shared: &ApiState, caller: &Caller, id: &str, headers: &HeaderMap) -> Response {
    let Some(form) = negotiate(headers, &[Form::Json, Form::Events]) else {
        let detail = "the reply is application/json or text/event-stream; accept one of them";
        return problem(StatusCode::NOT_ACCEPTABLE, detail);
    };
    let session = match find(shared, caller, id).await {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let claimed = match claim(shared, caller, headers, || format!("POST /v1/sessions/{id}/resume")) {
        Ok(claimed) => claimed,
        Err(response) => return *response,
    };
    let Some(running) = RunningMessage::begin(shared, &session, None, claimed) else { return busy() };
    running.respond(form, id).await
}

/// Returns the agents of this server.
fn agents(shared: &ApiState) -> Result<&Arc<dyn SessionAgents>, Box<Response>> {
    let detail = "this server has no model, so it has no sessions; its operator can set one in [model]";
    shared.options.sessions.as_ref().ok_or_else(|| Box::new(problem(StatusCode::NOT_FOUND, detail)))
}

/// Parses a body.
pub(crate) fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Box<Response>> {
    serde_json::from_slice(body).map_err(|error| {
        let detail = format!("the body does not match /openapi.json: {error}");
        Box::new(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, printable(&detail)).into_response())
    })
}

/// Returns the response to a fault of an agent.
pub(crate) fn error_response(SessionError(why): &SessionError) -> Response {
    problem(StatusCode::INTERNAL_SERVER_ERROR, printable(why))
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
