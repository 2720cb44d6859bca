//! The cost of the loop itself per request, with a scripted model, an executor that does nothing, and no log.
//!
//! `cargo bench -p fumehood-agent --bench turns`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fumehood_agent::agent::Agent;
use fumehood_agent::budget::Budget;
use fumehood_agent::driver::{Decision, Driver, ToolRuntime};
use fumehood_agent::execution::{Status, ToolExecution};
use fumehood_agent::executor::{BatchOutcome, Scope, ToolExecutor};
use fumehood_agent::session::SessionConfig;
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::result::{CallResult, Metadata};
use fumehood_core::chat::{Message, ModelError, Reply, Request, Response, ToolIntent, ToolSpec};
use fumehood_core::time::Timestamp;

const ROUNDS: usize = 2_000;

/// A driver for which calls are calls, and text is the answer.
#[derive(Default)]
struct Plain {
    tools: Vec<ToolSpec>,
}

impl Driver for Plain {
    fn bind(&mut self, runtime: ToolRuntime) {
        self.tools = runtime.tools;
    }

    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request {
        Request { messages: [conversation, trace].concat(), tools: self.tools.clone(), ..Request::default() }
    }

    fn decide(&mut self, response: &Response) -> Decision {
        match &response.reply {
            Reply::Text(text) => Decision::Answer(text.clone()),
            Reply::ToolCalls { text, calls } => {
                Decision::Call { text: text.clone(), calls: calls.clone(), refused: Vec::new() }
            }
        }
    }

    fn trace(&self, _: &Response, executions: &[ToolExecution]) -> Vec<Message> {
        executions.iter().flat_map(|execution| self.replay(execution)).collect()
    }

    fn replay(&self, execution: &ToolExecution) -> Vec<Message> {
        let mut ask = Message::assistant("");
        ask.tool_calls = vec![execution.call.clone()];
        vec![ask, Message::tool(execution.call.id.clone(), execution.result.text().unwrap_or_default())]
    }
}

/// An executor that answers every call at once.
struct InstantExecutor;

impl ToolExecutor for InstantExecutor {
    fn specs(&self, _: &Scope) -> Vec<ToolSpec> {
        fn spec(name: &str) -> ToolSpec {
            ToolSpec {
                name: name.to_owned(),
                alias: None,
                description: "Adds.".to_owned(),
                parameters: serde_json::json!({ "type": "object", "properties": { "n": { "type": "integer" } } }),
            }
        }

        vec![spec("add"), spec("multiply")]
    }

    fn execute<'a>(&'a self, calls: Vec<ToolIntent>, _: &'a Scope) -> BoxFuture<'a, BatchOutcome> {
        let executed = |call: ToolIntent| ToolExecution {
            id: format!("x-{}", call.id),
            result: CallResult {
                id: call.id.clone(),
                tool: call.name.clone(),
                outcome: Ok(vec![Content::text("3")]),
                metadata: Metadata::default(),
            },
            call,
            status: Status::Ok,
            started_at: Timestamp(0),
            completed_at: Timestamp(0),
            modified: None,
        };
        let executions = calls.into_iter().map(executed).collect();
        Box::pin(std::future::ready(BatchOutcome::new(executions, None)))
    }
}

/// Measures the time per turn of a run. All turns but the last request `calls` calls.
async fn per_turn(turns: usize, calls: usize) -> Duration {
    let asked = AtomicUsize::new(0);
    let model = move |_: &Request| -> Result<Response, ModelError> {
        let turn = asked.fetch_add(1, Ordering::Relaxed);
        if turn + 1 == turns {
            return Ok(Response::text("done"));
        }
        let call = |n: usize| ToolIntent {
            id: format!("call_{turn}_{n}"),
            name: "add".to_owned(),
            arguments: format!(r#"{{"n":{turn}{n}}}"#),
        };
        Ok(Response::calls((0..calls).map(call).collect()))
    };
    let calls = u32::MAX;
    let calls_in_all = None;
    let budget = Budget { turns: u32::MAX, calls, calls_in_all, ..Budget::default() };
    let config = SessionConfig { budget, ..SessionConfig::default() };
    let builder = Agent::builder(Arc::new(model)).driver(Plain::default()).executor(Arc::new(InstantExecutor));
    let mut agent = builder.config(config).build().expect("an agent");
    let started = Instant::now();
    let outcome = agent.run("add").await.expect("a run");
    let took = started.elapsed();
    assert_eq!(outcome.text(), "done");
    took / u32::try_from(turns).expect("few")
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    println!("{:>6} {:>6} {:>10} {:>10}  per turn", "turns", "calls", "p50 µs", "p99 µs");
    for (turns, calls) in [(1, 0), (2, 1), (8, 1), (8, 5), (64, 1)] {
        let mut times: Vec<_> = (0..ROUNDS).map(|_| runtime.block_on(per_turn(turns, calls))).collect();
        times.sort_unstable();
        let micros = |at: usize| times[at].as_secs_f64() * 1e6;
        println!("{turns:>6} {calls:>6} {:>10.1} {:>10.1}", micros(ROUNDS / 2), micros(ROUNDS * 99 / 100));
    }
}
