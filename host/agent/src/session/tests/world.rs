//! Fixtures for tests of sessions: a small driver, and executions in the form of an executor's.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::chat::{Message, Reply, Request, Response, ToolIntent, ToolSpec};
use fumehood_core::time::Timestamp;

use crate::drivers::driver::{Decision, DecisionError, DecisionFault, Driver, ToolRuntime};
use crate::execution::{Status, ToolExecution};
use crate::executor::BatchOutcome;
use crate::run_settings::RunSettings;
use crate::session::{Action, Input, Session, SessionConfig};

pub(crate) const NOW: Timestamp = Timestamp(1_000_000_000);

/// A driver for tests: calls are calls, a text with a word in capitals and a colon at its start is another decision,
/// and any other text is the answer.
#[derive(Default)]
pub(crate) struct Plain {
    pub(crate) bound: Arc<Mutex<Vec<Vec<String>>>>,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) max_tokens: Option<u32>,
}

impl Driver for Plain {
    fn bind(&mut self, runtime: ToolRuntime) {
        self.bound.lock().unwrap().push(runtime.tools.iter().map(|tool| tool.name.clone()).collect());
        self.tools = runtime.tools;
    }

    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request {
        let messages = [conversation, trace].concat();
        Request { messages, tools: self.tools.clone(), max_tokens: self.max_tokens, ..Request::default() }
    }

    fn decide(&mut self, response: &Response) -> Decision {
        fn failure(fault: DecisionFault) -> Decision {
            Decision::Failed(DecisionError { fault, message: "no decision".to_owned() })
        }

        let text = response.reply.text().to_owned();
        match (&response.reply, text.split_once(':')) {
            (Reply::ToolCalls { calls, .. }, _) => {
                let odd = calls.iter().enumerate().filter(|(_, call)| call.name == "odd");
                let refused = odd.map(|(index, _)| (index, "odd is refused".to_owned())).collect();
                Decision::Call { text, calls: calls.clone(), refused }
            }
            (_, Some(("AGAIN", rest))) => Decision::Again { messages: vec![Message::user(rest)] },
            (_, Some(("INFER", rest))) => {
                let request =
                    Request { messages: vec![Message::user(rest)], tools: vec![spec("x")], ..Request::default() };
                Decision::Infer(Box::new(request))
            }
            (_, Some(("NONE", _))) => Decision::Call { text: String::new(), calls: Vec::new(), refused: Vec::new() },
            (_, Some(("EXTRACTION", _))) => failure(DecisionFault::Extraction),
            (_, Some(("VALIDATION", _))) => failure(DecisionFault::Validation),
            _ => Decision::Answer(text),
        }
    }

    fn trace(&self, _: &Response, executions: &[ToolExecution]) -> Vec<Message> {
        executions.iter().flat_map(pair).collect()
    }

    fn replay(&self, execution: &ToolExecution) -> Vec<Message> {
        pair(execution)
    }
}

fn pair(execution: &ToolExecution) -> Vec<Message> {
    let mut ask = Message::assistant("");
    ask.tool_calls = vec![execution.call.clone()];
    let text = execution.result.text().unwrap_or(execution.error_message().into()).into_owned();
    vec![ask, Message::tool(execution.call.id.clone(), text)]
}

pub(crate) fn spec(name: &str) -> ToolSpec {
    ToolSpec { name: name.to_owned(), alias: None, description: String::new(), parameters: serde_json::json!({}) }
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> ToolIntent {
    ToolIntent { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

/// Creates a response with `count` different calls, numbered from `from` on.
pub(crate) fn calls(from: usize, count: usize) -> Response {
    let one = |n: usize| call(&format!("c{n}"), "add", &format!(r#"{{"n":{n}}}"#));
    Response::calls((from..from + count).map(one).collect())
}

pub(crate) fn execution(call: &ToolIntent, status: Status, at: Timestamp) -> ToolExecution {
    let outcome = match status {
        Status::Ok => Ok(vec![Content::text(format!("result of {}", call.id))]),
        _ => Err(CallError::new(ErrorKind::ToolFailed, format!("{} failed", call.id))),
    };
    let metadata = Metadata::default().fuel_used(10);
    let result = CallResult { id: call.id.clone(), tool: call.name.clone(), outcome, metadata };
    let id = format!("x-{}", call.id);
    ToolExecution { id, call: call.clone(), status, result, started_at: at, completed_at: at, modified: None }
}

pub(crate) fn outcome(calls: &[ToolIntent], status: Status, at: Timestamp) -> BatchOutcome {
    BatchOutcome::new(calls.iter().map(|call| execution(call, status, at)).collect(), None)
}

pub(crate) fn session(config: SessionConfig) -> Session {
    Session::new(config, Box::new(Plain::default()))
}

pub(crate) fn says(text: &str) -> Input {
    let settings = RunSettings::default();
    Input::UserMessage { text: text.to_owned(), tools: vec![spec("add"), spec("odd")], settings }
}

pub(crate) fn answers(response: Response) -> Input {
    Input::ModelAnswered { response, streamed: Duration::from_millis(5) }
}

/// Continues with these responses of the model, and this status for each call, until the run or the responses end.
pub(crate) fn go_on(session: &mut Session, mut action: Action, replies: Vec<Response>, status: Status) -> Action {
    let mut replies = replies.into_iter();
    loop {
        let input = match &action {
            Action::AskModel(_) => match replies.next() {
                Some(reply) => answers(reply),
                None => return action,
            },
            Action::RunTools(calls) => {
                Input::ToolsFinished { outcome: outcome(calls, status, NOW), blocked: Duration::from_millis(1) }
            }
            Action::AskApprover(_) | Action::AwaitAnswers(_) | Action::Finish(_) => return action,
        };
        action = session.step(input, NOW).unwrap();
    }
}

/// Starts a run, with these responses of the model and this status for each call.
pub(crate) fn run(session: &mut Session, text: &str, replies: Vec<Response>, status: Status) -> Action {
    let action = session.step(says(text), NOW).unwrap();
    go_on(session, action, replies, status)
}
