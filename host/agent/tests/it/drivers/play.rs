//! A minimal loop: a driver, scripted replies, and a calculator.

use std::time::Duration;

use fumehood_agent::driver::{Decision, Driver, ToolRuntime};
use fumehood_agent::execution::{Status, ToolExecution};
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::chat::{Message, Request, Response, ToolIntent, ToolSpec};
use fumehood_core::time::Timestamp;
use serde_json::{Value, json};

pub(crate) fn tools() -> Vec<ToolSpec> {
    let binary = json!({
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    });
    let tools = [("add", "a + b"), ("multiply", "a * b"), ("divide", "a / b")].map(|(name, what)| ToolSpec {
        name: name.to_owned(),
        alias: None,
        description: what.to_owned(),
        parameters: binary.clone(),
    });
    tools.to_vec()
}

pub(crate) fn intent(id: &str, name: &str, arguments: &str) -> ToolIntent {
    ToolIntent { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

pub(crate) fn execution(call: ToolIntent, outcome: Result<Vec<Content>, CallError>) -> ToolExecution {
    ToolExecution {
        id: format!("exec-{}", call.id),
        status: if outcome.is_ok() { Status::Ok } else { Status::HandlerError },
        result: CallResult { id: call.id.clone(), tool: call.name.clone(), outcome, metadata: Metadata::default() },
        call,
        started_at: Timestamp::default(),
        completed_at: Timestamp::default(),
        modified: None,
    }
}

fn calculate(call: &ToolIntent) -> Result<Vec<Content>, CallError> {
    fn refused(why: &str) -> CallError {
        CallError::new(ErrorKind::InvalidArguments, why)
    }

    let args: Value = serde_json::from_str(&call.arguments).map_err(|_| refused("not JSON"))?;
    let number = |key: &str| args[key].as_f64().ok_or_else(|| refused("a number is missing"));
    let a = number("a")?;
    let b = number("b")?;
    let value = match call.name.as_str() {
        "add" => a + b,
        "multiply" => a * b,
        "divide" if b == 0.0 => return Err(CallError::new(ErrorKind::ToolFailed, "Division by zero")),
        "divide" => a / b,
        name => return Err(CallError::new(ErrorKind::UnknownTool, format!("unknown tool `{name}`"))),
    };
    Ok(vec![Content::json(value.to_string()).unwrap()])
}

pub(crate) struct Playback {
    pub(crate) end: Decision,
    pub(crate) requests: Vec<Request>,
    pub(crate) executions: Vec<ToolExecution>,
}

/// Runs one execution of the loop, from a user's message to an answer, a failure or the last reply.
pub(crate) fn play(driver: &mut dyn Driver, user: &str, replies: Vec<Response>) -> Playback {
    driver.bind(ToolRuntime { tools: tools() });
    let conversation = [Message::user(user)];
    let mut trace = Vec::new();
    let mut requests = Vec::new();
    let mut executions = Vec::new();
    let mut next: Option<Request> = None;
    for response in replies {
        requests.push(next.take().unwrap_or_else(|| driver.request(&conversation, &trace)));
        match driver.decide(&response) {
            Decision::Again { messages } => trace.extend(messages),
            Decision::Infer(request) => next = Some(*request),
            Decision::Call { calls, .. } => {
                let mut done = Vec::new();
                for mut call in calls {
                    call.id = format!("call-{}", executions.len() + done.len());
                    let outcome = calculate(&call);
                    done.push(execution(call, outcome));
                }
                trace.extend(driver.trace(&response, &done));
                executions.extend(done);
            }
            end => return Playback { end, requests, executions },
        }
    }
    requests.push(next.take().unwrap_or_else(|| driver.request(&conversation, &trace)));
    Playback { end: Decision::Again { messages: Vec::new() }, requests, executions }
}

pub(crate) fn texts(request: &Request) -> Vec<&str> {
    request.messages.iter().map(|message| message.content.as_str()).collect()
}

/// Runs one execution with any replies. The property tests of the drivers use it: every decision must end the loop or
/// continue it.
pub(crate) fn survive(driver: &mut dyn Driver, replies: Vec<Response>) {
    let started = std::time::Instant::now();
    let played = play(driver, "go", replies);
    assert!(played.requests.iter().all(|request| !request.messages.is_empty()));
    assert!(started.elapsed() < Duration::from_secs(10));
}
