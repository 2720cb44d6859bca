//! Tests of custom drivers, and of the scripted driver in a whole loop.

use fumehood_agent::driver::{Decision, Driver, ToolRuntime};
use fumehood_agent::execution::ToolExecution;
use fumehood_core::chat::{Message, Request, Response, ToolIntent};

use super::play::{play, texts, tools};

/// A driver for which `name arguments` is a call, and any other reply is the answer.
#[derive(Default)]
struct LineDriver {
    tools: Vec<String>,
}

fn request(conversation: &[Message], trace: &[Message]) -> Request {
    Request { messages: [conversation, trace].concat(), ..Request::default() }
}

fn to_messages(executions: &[ToolExecution]) -> Vec<Message> {
    executions
        .iter()
        .map(|done| Message::user(format!("{}: {}", done.name(), done.result.text().unwrap_or("failed".into()))))
        .collect()
}

impl Driver for LineDriver {
    fn bind(&mut self, runtime: ToolRuntime) {
        self.tools = runtime.tools.into_iter().map(|tool| tool.name).collect();
    }

    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request {
        request(conversation, trace)
    }

    fn decide(&mut self, response: &Response) -> Decision {
        match response.reply.text().split_once(' ') {
            Some((name, arguments)) if self.tools.iter().any(|tool| tool == name) => {
                let call = ToolIntent { id: String::new(), name: name.to_owned(), arguments: arguments.to_owned() };
                Decision::Call { text: String::new(), calls: vec![call], refused: Vec::new() }
            }
            _ => Decision::Answer(response.reply.text().to_owned()),
        }
    }

    fn trace(&self, _: &Response, executions: &[ToolExecution]) -> Vec<Message> {
        to_messages(executions)
    }

    fn replay(&self, execution: &ToolExecution) -> Vec<Message> {
        to_messages(std::slice::from_ref(execution))
    }
}

/// A driver without tools, which does not implement `bind`.
struct EchoDriver;

impl Driver for EchoDriver {
    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request {
        request(conversation, trace)
    }

    fn decide(&mut self, response: &Response) -> Decision {
        Decision::Answer(response.reply.text().to_owned())
    }

    fn trace(&self, _: &Response, _: &[ToolExecution]) -> Vec<Message> {
        Vec::new()
    }

    fn replay(&self, _: &ToolExecution) -> Vec<Message> {
        Vec::new()
    }
}

#[test]
fn a_driver_that_needs_no_tools_need_not_take_them() {
    let played = play(&mut EchoDriver, "hi", vec![Response::text("hello")]);
    assert_eq!(played.end, Decision::Answer("hello".to_owned()));
}

#[test]
fn a_driver_that_takes_the_runtime_is_given_it() {
    let mut driver = LineDriver::default();
    let replies = vec![Response::text(r#"add {"a": 3, "b": 5}"#), Response::text("It is 8.")];
    let played = play(&mut driver, "3 + 5", replies);
    assert_eq!(played.end, Decision::Answer("It is 8.".to_owned()));
    assert_eq!(texts(&played.requests[1]), ["3 + 5", "add: 8"]);
    assert_eq!(driver.tools.len(), tools().len());
}
