//! `fumehood run`: runs one task with a model and tools until it is answered.

use std::io::Read as _;

use anyhow::Result;

use crate::agent::saved::SaveMode;
use crate::agent::session::AgentSession;
use crate::args::Arguments;
use crate::args::run::{ApproveName, Run};
use crate::exit::{Exit, UsageError};

/// Maximum size of a task, in bytes.
const MAX_TASK_BYTES: u64 = 1 << 20;

pub(crate) async fn run(arguments: &Arguments, run: &Run) -> Result<Exit> {
    if run.agent.approve == Some(ApproveName::Json) && run.task.as_deref() == Some("-") {
        let message = "with `--approve json`, standard input is for answers; give the task as an argument".to_owned();
        return Err(UsageError(message).into());
    }
    let task = match run.task.as_deref() {
        Some("-") => Some(read_task()?),
        task => task.map(str::to_owned),
    };
    if task.as_deref().is_some_and(|task| task.trim().is_empty()) {
        return Err(UsageError("the task is empty".to_owned()).into());
    }
    let saving = match (&run.session, &run.resume) {
        (Some(id), _) => SaveMode::Begin(id.clone()),
        (None, Some(id)) => SaveMode::Resume(id.clone()),
        (None, None) => SaveMode::No,
    };
    let session = AgentSession::set_up(arguments, &run.agent, &saving).await?;
    session.conclude(task).await
}

fn task_error(reason: &str) -> UsageError {
    UsageError(format!("the task on standard input {reason}"))
}

/// Reads the task from standard input.
fn read_task() -> Result<String> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_TASK_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| task_error(&format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_TASK_BYTES {
        return Err(task_error("is larger than 1 MiB; shorten it").into());
    }
    Ok(String::from_utf8(bytes).map_err(|_| task_error("is not UTF-8 text"))?)
}
