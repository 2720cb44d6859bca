//! Requests about jobs: calls that outlive their request.

#![allow(unused_qualifications, reason = "the macro of a path writes the whole name of its parameters")]

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Result};
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::call::{Call, CallContext, CancellationToken};
use fumehood_core::job::{Job, JobId, JobState};
use fumehood_core::text::sanitize::printable;
use http::header::{HeaderValue, LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::http_api::call_answer::{finish, key_of_another_request, replay, run_until_stopped, start};
use crate::http_api::extract::{Name, Query};
use crate::http_api::idempotency::{self, Answer, ClaimedKey};
use crate::http_api::list_query::{page_limit, parse_cursor};
use crate::http_api::negotiation::Form;
use crate::http_api::preferences::Preferences;
use crate::http_api::problem::{Problem, problem};
use crate::http_api::response::{self, Response};
use crate::http_api::result::ResultRecord;
use crate::http_api::state::{ApiState, Caller};
use crate::{CallOrJob, JobCall, JobError, Jobs, poll_interval, retry_after_header};

/// The delay after which a store that does not answer is asked again.
const RETRY_STORE: Duration = Duration::from_secs(1);
/// Maximum time that a request without `respond-async` waits for the job of its key.
const MAX_REPLAY_WAIT: Duration = Duration::from_secs(60 * 60);

/// Prefix of a cursor; other texts are rejected.
const CURSOR_PREFIX: &str = "after:";

/// One job in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobSummary {
    /// The id of the job.
    id: String,
    /// The full name of the tool.
    tool: String,
    /// `working`, `completed`, `failed` (the call or its result was lost) or `cancelled`.
    status: &'static str,
    /// The last report of the tool, while the job works.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
    /// The time of its creation, in milliseconds since 1970.
    created_at_ms: u64,
    /// The time of its last change, in milliseconds since 1970.
    updated_at_ms: u64,
    /// The time at which it is removed, with its result, in milliseconds since 1970.
    expires_at_ms: u64,
}

/// One job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobDetail<'a> {
    #[serde(flatten)]
    summary: JobSummary,
    /// The record of the call of a `completed` job, whose own `status` is `error` if the tool failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<ResultRecord<'a>>,
    /// The failure of a `failed` job: its `kind`, a `message`, and perhaps a `hint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    error: Option<&'a CallError>,
}

/// Filters of a list of jobs, and its page.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct JobParameters {
    /// Only jobs of this tool, by its full name.
    tool: Option<String>,
    /// Only jobs of this status.
    status: Option<String>,
    /// The `next` of the page before.
    cursor: Option<String>,
    /// Maximum number of items, 1 to 500.
    limit: Option<usize>,
}

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPage {
    /// The jobs, the newest first.
    jobs: Vec<JobSummary>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl JobSummary {
    fn new(job: &Job) -> Self {
        let progress = match &job.state {
            JobState::Working { message } => message.as_ref().map(ToString::to_string),
            _ => None,
        };
        Self {
            id: job.id.to_string(),
            tool: printable(&job.tool).into_owned(),
            status: job.state.as_str(),
            progress,
            created_at_ms: job.created_at.0,
            updated_at_ms: job.updated_at.0,
            expires_at_ms: job.expires_at().0,
        }
    }
}

impl<'a> JobDetail<'a> {
    fn new(job: &'a Job) -> Self {
        let (result, error) = match &job.state {
            JobState::Completed(result) => (Some(ResultRecord::new(result)), None),
            JobState::Failed(error) => (None, Some(error)),
            JobState::Working { .. } | JobState::Cancelled => (None, None),
        };
        Self { summary: JobSummary::new(job), result, error }
    }
}

/// Looks for the job of the key of a call, whatever its client prefers. Returns the key if there is no such job, so that the call is
/// to be run.
///
/// # Errors
/// The response to a call that is not to be run, because it is that job, or its key is that of another one.
pub(crate) async fn find_job_of_key(
    shared: &ApiState,
    caller: &Caller,
    claimed: Option<ClaimedKey>,
    form: Form,
    preferences: Preferences,
) -> Result<Option<ClaimedKey>> {
    let key = claimed.as_ref().map(ClaimedKey::job_key);
    let (Some(jobs), Some(key)) = (&shared.options.jobs, key) else { return Ok(claimed) };
    let job = match jobs.find_by_key(&caller.tenant.name, &key.key).await? {
        None => return Ok(claimed),
        Some(job) if job.key == Some(key) => job,
        Some(_) => return Err(key_of_another_request().into()),
    };
    // The job has the key, also for those who ask while this request waits.
    drop(claimed);
    if form == Form::Events {
        return Err(replay(no_events(&job)).into());
    }
    let (preferences, time) = if preferences.respond_async {
        (preferences, preferences.wait.unwrap_or_default())
    } else {
        // It waits for the result, as its call would.
        (Preferences::default(), job.ttl.min(MAX_REPLAY_WAIT))
    };
    let answer = if time.is_zero() {
        job_answer(caller, &job, preferences).await
    } else {
        wait_for_answer(shared, jobs, caller, job, preferences, time).await
    };
    Err(replay(answer).into())
}

/// Returns the answer to a client that accepts events only, and whose call is a job: jobs have none.
fn no_events(job: &Job) -> Answer {
    let path = path_of(job);
    let detail = format!("the call of this Idempotency-Key is a job, which has no events; use `GET {path}`");
    with_location(Answer::problem(&Problem::new(StatusCode::CONFLICT, detail)), job)
}

/// Runs a call whose client prefers a job. `preferences` is what it prefers.
pub(crate) async fn call(
    shared: &ApiState,
    jobs: &Jobs,
    caller: &Caller,
    call: Call,
    mut claimed: Option<ClaimedKey>,
    preferences: Preferences,
) -> Response {
    let key = claimed.as_ref().map(ClaimedKey::job_key);
    let id = call.context.id.clone();
    let cancelled = CancellationToken::new();
    start(claimed.as_mut(), &call);
    let call = Call { context: CallContext { cancelled: Some(cancelled.clone()), ..call.context }, ..call };
    let owner = Arc::clone(&caller.tenant.name);
    let tools = Arc::clone(&caller.tools);
    let wait = preferences.wait.unwrap_or_default();
    // One with a key is a job before it runs, so that the key holds for as long as there is a trace of the call.
    let after = Some(if key.is_some() { Duration::ZERO } else { wait });
    let job_call = JobCall { after, key, ..JobCall::new(owner, tools, call, caller.memory.clone()) };
    let job_call = match &caller.queue {
        (queue, turn) if caller.parses_in_queue => job_call.begin_in(queue.clone(), Arc::clone(turn)),
        _ => job_call,
    };
    let began = tokio::time::Instant::now();
    let called = run_until_stopped(shared, &cancelled, jobs.call(job_call)).await;
    let answer = match called {
        // One that was refused has no id of its own.
        CallOrJob::Ended(result) if result.id.is_empty() => {
            finish(caller, claimed, CallResult { id, ..*result }).await.1
        }
        CallOrJob::Ended(result) => finish(caller, claimed, *result).await.1,
        CallOrJob::Job(job) => {
            let accepted = job_answer(caller, &job, preferences).await;
            // From now on its client has it, also if it does not wait for the rest of this answer.
            match claimed {
                // The job has the key, and its present state is the answer.
                Some(claimed) if job.key.is_some() => claimed.release(),
                claimed => idempotency::keep(claimed, &accepted),
            }
            let rest = wait.saturating_sub(began.elapsed());
            if rest.is_zero() { accepted } else { wait_for_answer(shared, jobs, caller, *job, preferences, rest).await }
        }
    };
    answer.into_response()
}

/// Waits for the end of a job, and returns the answer to its call, which names the job.
async fn wait_for_answer(
    shared: &ApiState,
    jobs: &Jobs,
    caller: &Caller,
    job: Job,
    preferences: Preferences,
    time: Duration,
) -> Answer {
    let job = wait(shared, jobs, caller, &job.id.to_string(), time).await.unwrap_or(job);
    let answer = match &job.state {
        JobState::Working { .. } => return job_answer(caller, &job, preferences).await,
        JobState::Completed(result) => finish(caller, None, CallResult::clone(result)).await.1,
        JobState::Failed(error) => Answer::problem(&Problem::of_error(error)),
        JobState::Cancelled => Answer::problem(&Problem::of_error(&CallError::cancelled())),
    };
    with_location(answer, &job)
}

fn path_of(job: &Job) -> String {
    format!("/v1/jobs/{}", job.id)
}

/// Adds the path of a job to an answer.
fn with_location(mut answer: Answer, job: &Job) -> Answer {
    if let Ok(location) = HeaderValue::from_str(&path_of(job)) {
        answer.headers.insert(LOCATION, location);
    }
    answer
}

/// Returns the answer with a job, and with its result if it has one.
async fn write_job(caller: &Caller, job: &Job) -> Answer {
    let parts = match &job.state {
        JobState::Completed(result) => result.content(),
        _ => &[],
    };
    let written = job.clone();
    let write = move || Answer::json(StatusCode::OK, &JobDetail::new(&written));
    let stopped = || Answer::problem(&Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"));
    caller.work(parts, write).await.unwrap_or_else(stopped)
}

/// Returns the answer to a call that has become a job.
async fn job_answer(caller: &Caller, job: &Job, preferences: Preferences) -> Answer {
    let answer = Answer { status: StatusCode::ACCEPTED, ..write_job(caller, job).await };
    let mut answer = with_location(answer, job);
    if !job.state.is_final() {
        answer.headers.insert(RETRY_AFTER, retry_after_header(poll_interval(job)));
    }
    preferences.apply(&mut answer.headers);
    answer
}

/// Waits for the end of a job, for this time at most, or until the server stops.
async fn wait(shared: &ApiState, jobs: &Jobs, caller: &Caller, id: &str, time: Duration) -> Result<Job, JobError> {
    let owner = &*caller.tenant.name;
    tokio::select! {
        // Biased, so that a job that has ended is answered for even by a server that stops.
        biased;
        found = jobs.wait_or_adopt(owner, id, &caller.tools, time) => found,
        () = shared.stopped.cancelled() => jobs.find(owner, id).await,
    }
}

/// Lists the jobs of the client, the newest first.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "listJobs", tag = "jobs", params(JobParameters),
    responses((status = 200, description = "A page of jobs", body = JobPage))
)]
pub(crate) async fn list(
    State(shared): State<Arc<ApiState>>,
    caller: Caller,
    Query(filters): Query<JobParameters>,
) -> Result<Response> {
    let limit = page_limit(filters.limit)?;
    let after = parse_cursor(filters.cursor.as_deref(), CURSOR_PREFIX, parse_position)?;
    let found = jobs(&shared)?.list(&caller.tenant.name).await?;
    let mut matching = found.iter().filter(|job| {
        filters.tool.as_ref().is_none_or(|tool| *tool == job.tool)
            && filters.status.as_ref().is_none_or(|status| status == job.state.as_str())
            && after.is_none_or(|after| position(job) > after)
    });
    let page: Vec<&Job> = matching.by_ref().take(limit).collect();
    let has_next = matching.next().is_some();
    let next = page.last().filter(|_| has_next).map(|last| format!("{CURSOR_PREFIX}{}:{}", last.created_at.0, last.id));
    Ok(response::json(&JobPage { jobs: page.into_iter().map(JobSummary::new).collect(), next }))
}

/// The position of a job in the list: newer ones come first.
type Position = (Reverse<u64>, JobId);

fn position(job: &Job) -> Position {
    (Reverse(job.created_at.0), job.id)
}

fn parse_position(position: &str) -> Option<Position> {
    let (created_at, id) = position.split_once(':')?;
    Some((Reverse(created_at.parse().ok()?), JobId::parse(id)?))
}

/// Returns a job: its state, and the result of one that has ended.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", operation_id = "getJob", tag = "jobs",
    params(
        ("id" = String, Path, description = "The id of the job"),
        ("Prefer" = Option<String>, Header, description = "`wait=N` waits for the end, N seconds at most (RFC 7240)"),
    ),
    responses((status = 200, description = "The job", body = JobDetail<'static>))
)]
pub(crate) async fn get(
    State(shared): State<Arc<ApiState>>,
    caller: Caller,
    Name(id): Name,
    headers: HeaderMap,
) -> Result<Response> {
    let preferences = Preferences { respond_async: false, ..Preferences::parse(&headers) };
    let job = wait(&shared, jobs(&shared)?, &caller, &id, preferences.wait.unwrap_or_default()).await?;
    let mut response = write_job(&caller, &job).await.into_response();
    if !job.state.is_final() {
        response.headers_mut().insert(RETRY_AFTER, retry_after_header(poll_interval(&job)));
    }
    preferences.apply(response.headers_mut());
    Ok(response)
}

/// Cancels a job that has not ended, and removes one that has, with its result.
#[utoipa::path(
    delete, path = "/v1/jobs/{id}", operation_id = "deleteJob", tag = "jobs",
    params(("id" = String, Path, description = "The id of the job")),
    responses(
        (status = 202, description = "The job is being stopped"),
        (status = 204, description = "The job had ended, and is removed"),
    )
)]
pub(crate) async fn remove(State(shared): State<Arc<ApiState>>, caller: Caller, Name(id): Name) -> Result<StatusCode> {
    let jobs = jobs(&shared)?;
    let owner = &*caller.tenant.name;
    if jobs.remove(owner, &id).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    jobs.cancel(owner, &id).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Returns the jobs of this server.
fn jobs(shared: &ApiState) -> Result<&Jobs> {
    let detail = "jobs are off on this server; its operator can remove `off` from [jobs]";
    Ok(shared.options.jobs.as_ref().ok_or_else(|| problem(StatusCode::NOT_FOUND, detail))?)
}

impl IntoResponse for JobError {
    fn into_response(self) -> Response {
        let detail = printable(&self.to_string()).into_owned();
        match self {
            Self::Unknown => problem(StatusCode::NOT_FOUND, detail),
            Self::Elsewhere => problem(StatusCode::CONFLICT, detail),
            _ => {
                let retry_after_ms = u64::try_from(RETRY_STORE.as_millis()).ok();
                Problem { retry_after_ms, ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail) }.into_response()
            }
        }
    }
}
