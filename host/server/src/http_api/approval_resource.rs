//! Requests about approvals.

#![allow(unused_qualifications, reason = "the macro of a path writes the whole name of its parameters")]

use std::sync::Arc;

use axum::extract::State;
use axum::response::Result;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use tokio_util::bytes::Bytes;
use utoipa::ToSchema;

use crate::http_api::call_answer::claim;
use crate::http_api::extract::{Name, parse};
use crate::http_api::idempotency::{self, Answer};
use crate::http_api::problem::problem;
use crate::http_api::response::{self, Response};
use crate::http_api::session_resource::restore;
use crate::http_api::sessions::approvals::Approval;
use crate::http_api::sessions::{ApprovalAnswer, SessionError, WaitingCall};
use crate::http_api::state::{ApiState, Caller};

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

/// The approvals that wait.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApprovalList {
    /// The approvals, the oldest first.
    approvals: Vec<Approval>,
}

/// Lists the approvals that wait for an answer.
#[utoipa::path(
    get, path = "/v1/approvals", operation_id = "listApprovals", tag = "approvals",
    responses((status = 200, description = "The approvals", body = ApprovalList))
)]
pub(crate) async fn list_approvals(State(shared): State<Arc<ApiState>>, caller: Caller) -> Result<Response> {
    Ok(response::json(&ApprovalList { approvals: waiting(&shared, &caller).await? }))
}

/// Returns the approvals of a tenant that wait: those of running messages, and those of sessions that wait for them.
async fn waiting(shared: &ApiState, caller: &Caller) -> Result<Vec<Approval>, SessionError> {
    restore(shared, caller).await?;
    let mut approvals = shared.approvals.list(&caller.tenant.name);
    for session in shared.sessions.list(&caller.tenant.name) {
        // One that answers a message does not wait.
        let Ok(mut agent) = session.agent.try_lock() else { continue };
        let calls = agent.waiting_calls().await?;
        let of_call = |call: &WaitingCall| Approval::new(call.id.clone(), &session.id, &call.question, call.asked_at);
        approvals.extend(calls.iter().map(of_call));
    }
    Ok(approvals)
}

/// Returns an approval that waits for an answer.
#[utoipa::path(
    get, path = "/v1/approvals/{id}", operation_id = "getApproval", tag = "approvals",
    params(("id" = String, Path, description = "The id of the approval")),
    responses((status = 200, description = "The approval", body = Approval))
)]
pub(crate) async fn get_approval(
    State(shared): State<Arc<ApiState>>,
    caller: Caller,
    Name(id): Name,
) -> Result<Response> {
    let approvals = waiting(&shared, &caller).await?;
    let approval = approvals.iter().find(|approval| approval.id == id);
    Ok(approval.map(response::json).ok_or_else(no_approval)?)
}

/// Answers an approval, if the client may. An answer is not changed.
#[utoipa::path(
    post, path = "/v1/approvals/{id}", operation_id = "answerApproval", tag = "approvals",
    params(
        ("id" = String, Path, description = "The id of the approval"),
        ("Idempotency-Key" = Option<String>, Header, description = "A key under which the approval is answered once"),
    ),
    request_body = AnswerApproval,
    responses((status = 204, description = "The approval is answered"))
)]
pub(crate) async fn answer_approval(
    State(shared): State<Arc<ApiState>>,
    caller: Caller,
    Name(id): Name,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode> {
    if !caller.tenant.approves {
        let detail = "this client may not answer approvals, because its own messages may have caused them; use \
                      `fumehood approve-call`, the dashboard, or a client with `approves = true` in [tenants]";
        return Err(problem(StatusCode::FORBIDDEN, detail).into());
    }
    let AnswerApproval { answer, reason } = parse(&body)?;
    let claimed = claim(&shared, &caller, &headers, || format!("POST /v1/approvals/{id}\n{answer:?}\n{reason}"))?;
    let given = match answer {
        AnswerName::Allow => ApprovalAnswer::Allow,
        AnswerName::Deny => ApprovalAnswer::Deny { reason },
    };
    if !give(&shared, &caller, &id, given).await? {
        return Err(no_approval().into());
    }
    idempotency::keep(
        claimed,
        &Answer { status: StatusCode::NO_CONTENT, headers: HeaderMap::new(), body: Bytes::new() },
    );
    Ok(StatusCode::NO_CONTENT)
}

/// Gives an answer to a running message, or to a session that waits. Returns whether it was still waited for.
async fn give(shared: &ApiState, caller: &Caller, id: &str, answer: ApprovalAnswer) -> Result<bool, SessionError> {
    let tenant = &caller.tenant.name;
    if shared.approvals.answer(tenant, id, answer.clone()) {
        return Ok(true);
    }
    restore(shared, caller).await?;
    let session = id.rsplit_once(':').and_then(|(session, _)| shared.sessions.find(tenant, session));
    let Some(session) = session else { return Ok(false) };
    // One that answers a message does not wait.
    let Ok(mut agent) = session.agent.try_lock() else { return Ok(false) };
    agent.answer_call(id.to_owned(), answer).await
}

fn no_approval() -> Response {
    problem(StatusCode::NOT_FOUND, "this approval is not waiting: it was answered, or its session no longer waits")
}
