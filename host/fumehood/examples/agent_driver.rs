//! A driver of your own: a protocol of plain lines. `!tool {"json": …}` is a call, anything else is the answer.
//!
//! `cargo run -p fumehood --example agent_driver`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use fumehood::agent::driver::{Decision, Driver, ToolRuntime};
use fumehood::agent::execution::ToolExecution;
use fumehood::agent::render::format_execution;
use fumehood::chat::{Message, Request, Response, ToolIntent};
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::{Host, Load};

const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");

/// A driver for this protocol. It is pure: it neither asks a model nor runs a tool.
#[derive(Default)]
struct Lines {
    runtime: ToolRuntime,
}

impl Driver for Lines {
    fn bind(&mut self, runtime: ToolRuntime) {
        self.runtime = runtime;
    }

    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request {
        let names: Vec<&str> = self.runtime.tools.iter().map(|tool| tool.name.as_str()).collect();
        let system = format!("Call a tool with a line `!tool {{arguments}}`. The tools are: {}.", names.join(", "));
        Request { messages: [&[Message::system(system)], conversation, trace].concat(), ..Request::default() }
    }

    fn decide(&mut self, response: &Response) -> Decision {
        let text = response.reply.text();
        let call = |line: &str| {
            let (name, arguments) = line.strip_prefix('!')?.split_once(' ')?;
            Some(ToolIntent { id: String::new(), name: name.to_owned(), arguments: arguments.to_owned() })
        };
        let calls: Vec<ToolIntent> = text.lines().filter_map(call).collect();
        if calls.is_empty() {
            Decision::Answer(text.to_owned())
        } else {
            Decision::Call { text: String::new(), calls, refused: Vec::new() }
        }
    }

    fn trace(&self, response: &Response, executions: &[ToolExecution]) -> Vec<Message> {
        let results: Vec<String> = executions.iter().map(|execution| format_execution(execution, "failed: ")).collect();
        vec![Message::assistant(response.reply.text()), Message::user(results.join("\n"))]
    }

    fn replay(&self, execution: &ToolExecution) -> Vec<Message> {
        let asked = format!("!{} {}", execution.name(), execution.args());
        vec![Message::assistant(asked), Message::user(format_execution(execution, "failed: "))]
    }
}

pub(crate) async fn example() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder().build()?;
    host.load(Load::path(CALCULATOR)).await?;
    let model = ScriptedModel::new(vec![
        ScriptedReply::text("!calculator__add {\"a\": 3, \"b\": 5}\n!calculator__multiply {\"a\": 3, \"b\": 5}"),
        ScriptedReply::text("The sum is 8, the product 15.").expect_text("15"),
    ]);
    let mut agent = host.agent(Arc::new(model)).allow_everything().driver(Lines::default()).build()?;
    let outcome = agent.run("Sum and product of 3 and 5?").await?;
    println!("{} after {} calls", outcome.text(), outcome.run.executions().count());
    assert_eq!(outcome.text(), "The sum is 8, the product 15.");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    example().await
}
