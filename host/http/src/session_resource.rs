//! Requests about sessions and approvals.

#![allow(unused_qualifications, reason = "the macro of a path writes the whole name of its parameters")]

use std::sync::Arc;

use fumehood_core::text::sanitize::printable;
use http::header::{HeaderValue, LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::bytes::Bytes;
use tokio_util::sync::{CancellationToken as Cancellation, DropGuard};
use utoipa::ToSchema;

use crate::calls::claim;
use crate::idempotency::{Answer, Claimed};
use crate::negotiation::{Form, negotiate};
use crate::problem::{Problem, problem};
use crate::response::{self, Response};
use crate::sessions::approvals::Approval;
use crate::sessions::store::{MAX_SESSIONS, Session, SessionDetail, SessionSummary};
use crate::sessions::{
    ApprovalAnswer, NewSession, SessionAgents, SessionApprovals, SessionError, SessionEvent, SessionEvents,
    SessionReply,
};
use crate::state::{Caller, Shared};
use crate::stream::{EventBody, EventQueue, event};

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

/// The answer to an approval.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerApproval {
    /// `allow` or `deny`.
    answer: AnswerName,
    /// The reason of a denial, for the model.
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnswerName {
    Allow,
    Deny,
}

/// The open sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionList {
    /// The sessions, the newest first.
    sessions: Vec<SessionSummary>,
}

/// The approvals that wait.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApprovalList {
    /// The approvals, the oldest first.
    approvals: Vec<Approval>,
}

/// Opens a session.
#[utoipa::path(
    post, path = "/v1/sessions", operation_id = "createSession", tag = "sessions",
    params(("Idempotency-Key" = Option<String>, Header, description = "A key under which one session is opened")),
    request_body = CreateSession,
    responses((status = 201, description = "The session", body = SessionSummary))
)]
pub(crate) fn create(shared: &Shared, caller: &Caller, headers: &HeaderMap, body: &Bytes) -> Response {
    let agents = match agents(shared) {
        Ok(agents) => agents,
        Err(response) => return *response,
    };
    if !body.is_empty()
        && let Err(response) = parse::<CreateSession>(body)
    {
        return *response;
    }
    let claimed = match claim(shared, caller, headers, "POST /v1/sessions") {
        Ok(claimed) => claimed,
        Err(response) => return *response,
    };
    let tenant = &caller.tenant.name;
    let Some((number, id)) = shared.sessions.reserve(tenant) else {
        let detail = format!("there are {MAX_SESSIONS} open sessions already; delete one of them");
        return problem(StatusCode::TOO_MANY_REQUESTS, detail);
    };
    let approvals = SessionApprovals::new(shared.approvals.clone(), Arc::clone(tenant), id.clone());
    let new = NewSession {
        id: id.clone(),
        actor: shared.actor(caller),
        tools: Arc::clone(&caller.tools),
        approvals: approvals.clone(),
    };
    let agent = match agents.create(new) {
        Ok(agent) => agent,
        Err(SessionError(why)) => return problem(StatusCode::INTERNAL_SERVER_ERROR, printable(&why)),
    };
    let session = Arc::new(Session::new((id.clone(), Arc::clone(tenant)), agent, approvals));
    shared.sessions.add(number, Arc::clone(&session));
    let mut answer = answer(StatusCode::CREATED, &session.summary());
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/sessions/{id}")) {
        answer.headers.insert(LOCATION, location);
    }
    keep(claimed, &answer);
    answer.into_response()
}

/// Lists the open sessions.
#[utoipa::path(
    get, path = "/v1/sessions", operation_id = "listSessions", tag = "sessions",
    responses((status = 200, description = "The sessions", body = SessionList))
)]
pub(crate) fn list(shared: &Shared, caller: &Caller) -> Response {
    let sessions = shared.sessions.list(&caller.tenant.name);
    response::json(&SessionList { sessions: sessions.iter().map(|session| session.summary()).collect() })
}

/// Returns a session with its conversation.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", operation_id = "getSession", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session")),
    responses((status = 200, description = "The session", body = SessionDetail))
)]
pub(crate) fn get(shared: &Shared, caller: &Caller, id: &str) -> Response {
    match shared.sessions.find(&caller.tenant.name, id) {
        Some(session) => response::json(&session.detail()),
        None => no_session(),
    }
}

/// Closes a session. A message that is being answered is cancelled.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", operation_id = "deleteSession", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session")),
    responses((status = 204, description = "The session is closed"))
)]
pub(crate) fn remove(shared: &Shared, caller: &Caller, id: &str) -> Response {
    match shared.sessions.remove(&caller.tenant.name, id) {
        true => response::empty(StatusCode::NO_CONTENT),
        false => no_session(),
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
pub(crate) async fn send(
    shared: &Shared,
    caller: &Caller,
    id: &str,
    (headers, body): (&HeaderMap, &Bytes),
) -> Response {
    let Some(form) = negotiate(headers, &[Form::Json, Form::Events]) else {
        let detail = "the reply is application/json or text/event-stream; accept one of them";
        return problem(StatusCode::NOT_ACCEPTABLE, detail);
    };
    let Some(session) = shared.sessions.find(&caller.tenant.name, id) else { return no_session() };
    let SendMessage { text } = match parse(body) {
        Ok(message) => message,
        Err(response) => return *response,
    };
    if text.trim().is_empty() {
        return problem(StatusCode::UNPROCESSABLE_ENTITY, "`text` is blank; write the message there");
    }
    let claimed = match claim(shared, caller, headers, &format!("POST /v1/sessions/{id}/messages\n{text}")) {
        Ok(claimed) => claimed,
        Err(response) => return *response,
    };
    let Some(running) = Running::begin(shared, &session, text, claimed) else { return busy() };
    match form {
        Form::Json => answer(StatusCode::OK, &running.finish().await).into_response(),
        Form::Events => {
            let (first, queue) = (event("started", &json!({ "session": id })), Arc::clone(&running.events));
            let ended = Box::pin(async move { event("result", &running.finish().await) });
            let mut response = Response::new(EventBody::new(first, queue, ended).boxed_unsync());
            *response.headers_mut() = response::content_type("text/event-stream");
            response
        }
    }
}

/// Lists the approvals that wait for an answer.
#[utoipa::path(
    get, path = "/v1/approvals", operation_id = "listApprovals", tag = "approvals",
    responses((status = 200, description = "The approvals", body = ApprovalList))
)]
pub(crate) fn list_approvals(shared: &Shared, caller: &Caller) -> Response {
    response::json(&ApprovalList { approvals: shared.approvals.list(&caller.tenant.name) })
}

/// Returns an approval that waits for an answer.
#[utoipa::path(
    get, path = "/v1/approvals/{id}", operation_id = "getApproval", tag = "approvals",
    params(("id" = String, Path, description = "The id of the approval")),
    responses((status = 200, description = "The approval", body = Approval))
)]
pub(crate) fn get_approval(shared: &Shared, caller: &Caller, id: &str) -> Response {
    match shared.approvals.find(&caller.tenant.name, id) {
        Some(approval) => response::json(&approval),
        None => no_approval(),
    }
}

/// Answers an approval. An answer is not changed.
#[utoipa::path(
    post, path = "/v1/approvals/{id}", operation_id = "answerApproval", tag = "approvals",
    params(
        ("id" = String, Path, description = "The id of the approval"),
        ("Idempotency-Key" = Option<String>, Header, description = "A key under which the approval is answered once"),
    ),
    request_body = AnswerApproval,
    responses((status = 204, description = "The approval is answered"))
)]
pub(crate) fn answer_approval(
    shared: &Shared,
    caller: &Caller,
    id: &str,
    (headers, body): (&HeaderMap, &Bytes),
) -> Response {
    let AnswerApproval { answer, reason } = match parse(body) {
        Ok(answer) => answer,
        Err(response) => return *response,
    };
    let request = format!("POST /v1/approvals/{id}\n{answer:?}\n{reason}");
    let claimed = match claim(shared, caller, headers, &request) {
        Ok(claimed) => claimed,
        Err(response) => return *response,
    };
    let given = match answer {
        AnswerName::Allow => ApprovalAnswer::Allow,
        AnswerName::Deny => ApprovalAnswer::Deny { reason },
    };
    if !shared.approvals.answer(&caller.tenant.name, id, given) {
        return no_approval();
    }
    keep(claimed, &Answer { status: StatusCode::NO_CONTENT, headers: HeaderMap::new(), body: Bytes::new() });
    response::empty(StatusCode::NO_CONTENT)
}

/// A message that is being answered, in a task of its own. Dropping it cancels the reply; the session goes on.
struct Running {
    events: Arc<EventQueue>,
    reply: tokio::task::JoinHandle<SessionReply>,
    claimed: Option<Claimed>,
    _leaving: DropGuard,
}

impl Running {
    /// Begins a message; `None` if another one is being answered.
    fn begin(shared: &Shared, session: &Arc<Session>, text: String, claimed: Option<Claimed>) -> Option<Self> {
        let mut agent = Arc::clone(&session.agent).try_lock_owned().ok()?;
        let cancelled = session.begin(&text)?;
        let (events, left, stopped) = (Arc::<EventQueue>::default(), Cancellation::new(), shared.stopped.clone());
        session.approvals.announce_in(Some(Arc::clone(&events)));
        let (observer, session) = (Arc::new(Announced(Arc::clone(&events))), Arc::clone(session));
        let leaving = left.clone().drop_guard();
        let mut claimed = claimed;
        if let Some(claimed) = &mut claimed {
            claimed.started(answer(StatusCode::OK, &cancelled_reply()));
        }
        let reply = tokio::spawn(async move {
            let mut replying = agent.reply(text, observer, cancelled.clone());
            let reply = tokio::select! {
                biased;
                reply = &mut replying => reply,
                () = ended(&left, &stopped) => { cancelled.cancel(); replying.await }
            };
            session.approvals.announce_in(None);
            session.end(&reply.text);
            reply
        });
        Some(Self { events, reply, claimed, _leaving: leaving })
    }

    /// Waits for the reply, and keeps it for its key.
    async fn finish(self) -> SessionReply {
        let reply = self.reply.await.unwrap_or_else(|_| cancelled_reply());
        let reply = SessionReply {
            text: printable_lines(&reply.text),
            detail: reply.detail.as_deref().map(|detail| printable(detail).into_owned()),
            ..reply
        };
        keep(self.claimed, &answer(StatusCode::OK, &reply));
        reply
    }
}

/// Waits until the client has left, or the server stops.
async fn ended(left: &Cancellation, stopped: &Cancellation) {
    tokio::select! {
        () = left.cancelled() => {}
        () = stopped.cancelled() => {}
    }
}

/// Escapes hidden characters, and leaves line breaks and tabs as they are.
fn printable_lines(text: &str) -> String {
    let pieces: Vec<_> = text
        .split_inclusive(['\n', '\t'])
        .map(|piece| {
            let end = piece.len() - piece.ends_with(['\n', '\t']) as usize;
            let (line, rest) = piece.split_at(end);
            format!("{}{rest}", printable(line))
        })
        .collect();
    pieces.concat()
}

fn cancelled_reply() -> SessionReply {
    SessionReply { status: "cancelled".to_owned(), ..SessionReply::default() }
}

/// An observer that puts events into a stream.
struct Announced(Arc<EventQueue>);

impl SessionEvents for Announced {
    fn event(&self, happened: SessionEvent) {
        self.0.push(match happened {
            SessionEvent::Text(text) => event("text", &json!({ "text": printable_lines(&text) })),
            SessionEvent::CallStarted { tool } => event("call_started", &json!({ "tool": printable(&tool) })),
            SessionEvent::CallEnded { tool, status } => {
                event("call_ended", &json!({ "tool": printable(&tool), "status": printable(&status) }))
            }
        });
    }
}

/// Returns the agents of this server.
fn agents(shared: &Shared) -> Result<&Arc<dyn SessionAgents>, Box<Response>> {
    let detail = "this server has no model, and so no sessions; its operator names one in [model]";
    shared.options.sessions.as_ref().ok_or_else(|| Box::new(problem(StatusCode::NOT_FOUND, detail)))
}

/// Parses a body.
fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Box<Response>> {
    serde_json::from_slice(body).map_err(|error| {
        let detail = format!("the body is not as the document at /openapi.json says: {error}");
        Box::new(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, printable(&detail)).into_response())
    })
}

fn answer(status: StatusCode, value: &impl Serialize) -> Answer {
    // Its parts are texts and numbers.
    let body = serde_json::to_vec(value).unwrap_or_default().into();
    Answer { status, headers: response::content_type("application/json"), body }
}

/// Keeps an answer for its key, if the request had one.
fn keep(claimed: Option<Claimed>, answer: &Answer) {
    if let Some(claimed) = claimed {
        claimed.answer(answer.clone());
    }
}

fn no_session() -> Response {
    problem(StatusCode::NOT_FOUND, "there is no such session; POST /v1/sessions opens one")
}

fn no_approval() -> Response {
    problem(StatusCode::NOT_FOUND, "no such approval waits; it was answered, or the session does not wait any more")
}

fn busy() -> Response {
    let detail = "the session answers another message, or was closed; wait for the end of that message";
    let mut response = problem(StatusCode::CONFLICT, detail);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
