//! Tasks: calls that outlive their request (extension `io.modelcontextprotocol/tasks` of 2026-07-28, SEP-2663).

use std::time::{Duration, SystemTime};

use fumehood_core::call::result::CallError;
use fumehood_core::job::{Job, JobState};
use fumehood_core::time::Timestamp;
use fumehood_server::{JobError, Jobs, poll_interval};
use humantime::format_rfc3339_millis;
use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorCode, ErrorData, GetTaskResult, JsonObject, Task, TaskPayload, TaskStatus,
};
use serde_json::{Value, json};

use super::mcp_server::Server;
use super::tools::call_tool_result::into_call_tool_result;

/// Methods of tasks, all of which take parameters.
pub(crate) const METHODS: [&str; 3] = ["tasks/get", "tasks/update", "tasks/cancel"];

/// Returns the answer to a call that has become a task.
pub(crate) fn created(job: &Job) -> CreateTaskResult {
    CreateTaskResult::new(metadata(job))
}

/// Answers `tasks/get`.
///
/// # Errors
/// If the client has no such task, or it cannot be read.
pub(crate) async fn get(jobs: &Jobs, owner: &str, id: &str, server: &Server) -> Result<GetTaskResult, ErrorData> {
    let job = jobs.find_or_adopt(owner, id, &server.shared_tools()).await.map_err(error_data)?;
    let task = metadata(&job);
    let payload = match job.state {
        JobState::Working { .. } => TaskPayload::Working,
        JobState::Cancelled => TaskPayload::Cancelled,
        JobState::Completed(result) => {
            let form = server.catalogue().answer_form(&job.tool);
            let write = move |result| {
                let answer = into_call_tool_result(result, form);
                to_object(serde_json::to_value(answer))
            };
            TaskPayload::Completed { result: server.work(*result, write).await?? }
        }
        JobState::Failed(error) => {
            let error = error_of(&error);
            TaskPayload::Failed { error: to_object(serde_json::to_value(error))? }
        }
    };
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

/// Answers `tasks/update`. No tool of this host asks a client for input, so that answers are for nothing.
///
/// # Errors
/// As for [`get`].
pub(crate) async fn update(jobs: &Jobs, owner: &str, id: &str) -> Result<(), ErrorData> {
    jobs.find(owner, id).await.map(|_| ()).map_err(error_data)
}

/// Answers `tasks/cancel`.
///
/// # Errors
/// As for [`get`].
pub(crate) async fn cancel(jobs: &Jobs, owner: &str, id: &str) -> Result<(), ErrorData> {
    jobs.cancel(owner, id).await.map_err(error_data)
}

fn metadata(job: &Job) -> Task {
    let (status, message) = match &job.state {
        JobState::Working { message } => (TaskStatus::Working, message.as_ref().map(ToString::to_string)),
        JobState::Completed(result) => (TaskStatus::Completed, result.error().map(ToString::to_string)),
        JobState::Failed(error) => (TaskStatus::Failed, Some(error.to_string())),
        JobState::Cancelled => (TaskStatus::Cancelled, Some("the client cancelled the task".to_owned())),
    };
    let id = job.id.to_string();
    let mut task = Task::new(id, status, to_rfc3339(job.created_at), to_rfc3339(job.updated_at));
    task.status_message = message;
    task.ttl_ms = Some(millis(job.ttl));
    task.poll_interval_ms = Some(millis(poll_interval(job)));
    task
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a moment as RFC 3339 writes it; 1970 if it is beyond what that can write.
fn to_rfc3339(moment: Timestamp) -> String {
    /// The last millisecond of the year 9999.
    const MAX_MS: u64 = 253_402_300_799_999;
    let since = Duration::from_millis(if moment.0 > MAX_MS { 0 } else { moment.0 });
    format_rfc3339_millis(SystemTime::UNIX_EPOCH + since).to_string()
}

/// Returns the error of a task whose call the host lost.
fn error_of(error: &CallError) -> ErrorData {
    let plain = error.clone().without_details();
    let data = json!({ "fumehood/error": plain });
    ErrorData::internal_error(error.to_string(), Some(data))
}

fn error_data(error: JobError) -> ErrorData {
    match error {
        JobError::Store(error) => ErrorData::internal_error(error.to_string(), None),
        other => ErrorData::new(ErrorCode::INVALID_PARAMS, format!("taskId: {other}"), None),
    }
}

fn to_object(written: serde_json::Result<Value>) -> Result<JsonObject, ErrorData> {
    match written {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(ErrorData::internal_error("cannot serialize the result of the task", None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_the_specification_wants_them() {
        for (moment, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_764_000_000_123, "2025-11-24T16:00:00.123Z"),
            (u64::MAX, "1970-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(to_rfc3339(Timestamp(moment)), expected);
        }
    }
}
