//! Tasks: calls that outlive their request (extension `io.modelcontextprotocol/tasks` of 2026-07-28, SEP-2663).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fumehood_core::call::result::CallError;
use fumehood_core::job::{Job, JobState};
use fumehood_core::time::Timestamp;
use fumehood_core::tool::ToolProvider;
use fumehood_listener::{JobError, Jobs};
use humantime::format_rfc3339_millis;
use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorCode, ErrorData, GetTaskResult, JsonObject, Task, TaskPayload, TaskStatus,
};
use serde_json::{Value, json};

use super::tools::call_tool_result::into_call_tool_result;
use super::tools::catalogue::Catalogue;

/// Methods of tasks, all of which take parameters.
pub(crate) const METHODS: [&str; 3] = ["tasks/get", "tasks/update", "tasks/cancel"];

/// Suggested time between two `tasks/get` of a task, in milliseconds, unless its call is older.
const MIN_POLL_MS: u64 = 500;
/// Maximum of that time: a task that has run for long is not asked about often.
const MAX_POLL_MS: u64 = 10_000;
/// Part of its age after which a task is asked about again.
const POLL_DIVISOR: u64 = 10;

/// Returns the answer to a call that has become a task.
pub(crate) fn created(job: &Job) -> CreateTaskResult {
    CreateTaskResult::new(metadata(job))
}

/// Answers `tasks/get`.
///
/// # Errors
/// If the client has no such task, or it cannot be read.
pub(crate) async fn get(
    jobs: &Jobs,
    (owner, id): (&str, &str),
    (tools, catalogue): (&Arc<dyn ToolProvider>, &Catalogue),
) -> Result<GetTaskResult, ErrorData> {
    let job = jobs.find_or_adopt(owner, id, tools).await.map_err(error_data)?;
    let task = metadata(&job);
    let payload = match job.state {
        JobState::Working { .. } => TaskPayload::Working,
        JobState::Cancelled => TaskPayload::Cancelled,
        JobState::Completed(result) => {
            let answer = into_call_tool_result(*result, catalogue.is_structured(&job.tool));
            TaskPayload::Completed { result: to_object(serde_json::to_value(answer))? }
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
    task.poll_interval_ms = Some(poll_interval_ms(job));
    task
}

/// Returns the interval at which a task should be asked about. It grows with the age of the task.
fn poll_interval_ms(job: &Job) -> u64 {
    let age = fumehood_listener::now().since(job.created_at);
    millis(age).checked_div(POLL_DIVISOR).unwrap_or(0).clamp(MIN_POLL_MS, MAX_POLL_MS)
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
    let data = json!({ "fumehood/error": error });
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
        _ => Err(ErrorData::internal_error("the result of the task cannot be written as JSON", None)),
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::job::JobId;

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

    #[test]
    fn an_old_task_is_asked_about_less_often() {
        let aged = |age: Duration| {
            let begun = Timestamp(fumehood_listener::now().0.saturating_sub(millis(age)));
            let job = Job::begin(JobId::from_bits(1), ("a".into(), "t".to_owned()), begun, Duration::from_secs(60));
            poll_interval_ms(&job)
        };
        assert_eq!((aged(Duration::ZERO), aged(Duration::from_secs(600))), (MIN_POLL_MS, MAX_POLL_MS));
        assert!((2000..2100).contains(&aged(Duration::from_secs(20))));
    }
}
