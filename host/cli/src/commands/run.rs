//! `fumehood run`: one task, taken to its answer by a model and tools.

use std::io::Read as _;

use anyhow::Result;

use crate::agent::session::AgentSession;
use crate::args::Arguments;
use crate::args::run::Run;
use crate::exit::{Exit, UsageError};

/// More than this is no task.
const MOST: u64 = 1 << 20;

pub(crate) async fn run(arguments: &Arguments, run: &Run) -> Result<Exit> {
    let task = match run.task.as_str() {
        "-" => read()?,
        task => task.to_owned(),
    };
    if task.trim().is_empty() {
        return Err(UsageError("the task is empty; say what to do".to_owned()).into());
    }
    let session_parts = AgentSession::set_up(arguments, &run.agent).await?;
    session_parts.conclude(task).await
}

fn read() -> Result<String> {
    let wrong = |what: &str| UsageError(format!("the task on standard input {what}"));
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes);
    read.map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > MOST {
        return Err(wrong("is larger than 1 MiB; shorten it").into());
    }
    Ok(String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8 text"))?)
}
