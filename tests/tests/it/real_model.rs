//! A real model behind an OpenAI-compatible server, if one is configured, with the native, ReAct and batch drivers.
//! Each has to solve a sum, and to keep the guarantees that hold whatever a model answers.
//!
//! ```sh
//! FUMEHOOD_TEST_MODEL_URL=http://127.0.0.1:8080/v1/ FUMEHOOD_TEST_MODEL=NAME \
//!     cargo test --test it real_model -- --nocapture
//! ```
//!
//! The same is asserted of imitations on loopback: one that follows its instructions, and one with the habits of small
//! models.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood::agent::agent::Outcome;
use fumehood::agent::batch::BatchDriver;
use fumehood::agent::budget::Budget;
use fumehood::agent::execution::Status;
use fumehood::agent::native::NativeDriver;
use fumehood::agent::react::ReactDriver;
use fumehood::agent::transcript::Ending;
use fumehood::chat::{Model, Usage};
use fumehood::event_log::{EventLog, Filter, Options, StoredRecord};
use fumehood::model::{ModelSpec, Provider, ProviderConfig, Timeouts};
use fumehood::record::{RecordKind, Recorder};
use fumehood::{AgentBuilder, Host, Load};
use fumehood_tests::skip::skip;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../example-tools/dist/calculator.wasm");
/// A task, with the tools for it.
#[derive(Clone, Copy)]
struct Task {
    question: &'static str,
    allowed: &'static [&'static str],
}

/// A sum that asks for one tool that is not allowed.
const FORBIDDEN: Task = Task {
    question: "What is (3 + 5) * 2? Use calculator__add and calculator__multiply. Then divide that by 4 with \
               calculator__divide, if you can.",
    allowed: &["calculator__add", "calculator__multiply"],
};
/// A sum with a choice of tools.
const SUM: Task = Task {
    question: "What is (3 + 5) * 2? Use the tool.",
    allowed: &["calculator__add", "calculator__multiply", "calculator__evaluate"],
};

type BuilderFn = fn(AgentBuilder) -> AgentBuilder;

/// The drivers, each with a name for messages.
const DRIVERS: [(&str, BuilderFn); 3] = [
    ("native", |agent| agent.driver(NativeDriver::default())),
    ("react", |agent| agent.driver(ReactDriver::default())),
    ("batch", |agent| agent.driver(BatchDriver::new())),
];

/// Asks the model one question with one driver, and returns the records too.
async fn ask(model: Arc<dyn Model>, with: BuilderFn, task: Task) -> (Outcome, Vec<StoredRecord>) {
    let host = Host::builder().concurrency(4).memory_ceiling(64 << 20).build().unwrap();
    host.load(Load::path(Path::new(CALCULATOR))).await.unwrap();
    let log = Arc::new(EventLog::in_memory(&Options::default()).unwrap());
    let budget = Budget {
        turns: 6,
        wall_time: Some(Duration::from_secs(900)),
        stream_time: Some(Duration::from_secs(600)),
        ..Budget::default()
    };
    let agent = host.agent(model).allow(task.allowed.iter().copied()).budget(budget);
    let agent = agent.recorder(Arc::clone(&log) as Arc<dyn Recorder>);
    let mut agent = with(agent).build().unwrap();
    let within = Duration::from_secs(1000);
    let outcome = tokio::time::timeout(within, agent.run(task.question)).await.expect("a run ends").unwrap();
    agent.close().await.unwrap();
    log.flush().await.unwrap();
    let stored = log.reader().query(&Filter::default()).unwrap();
    assert!(log.reader().verify(None).unwrap().finding.is_none());
    (outcome, stored)
}

/// Asserts the guarantees that hold whatever a model answers.
fn hold(driver: &str, task: Task, outcome: &Outcome, stored: &[StoredRecord]) {
    if let Ending::Answered { text } = &outcome.ending {
        assert!(!text.trim().is_empty(), "{driver}");
    }
    for execution in outcome.run.executions() {
        let ran = matches!(execution.status, Status::Ok | Status::HandlerError);
        assert!(!ran || task.allowed.contains(&execution.name()), "{driver}: {}", execution.name());
        assert_eq!(execution.result.id, execution.call.id, "{driver}");
    }
    assert!(outcome.run.steps.len() <= 6, "{driver}");
    let kinds: Vec<RecordKind> = stored.iter().map(|stored| stored.record.kind).collect();
    assert_eq!(kinds[..3], [RecordKind::SessionStarted, RecordKind::UserMessage, RecordKind::ModelAsked], "{driver}");
    assert_eq!(kinds.last(), Some(&RecordKind::SessionFinished), "{driver}");
    let mut running: BTreeMap<&str, u32> = BTreeMap::new();
    let mut asked = 0;
    for stored in stored {
        let call = stored.record.call.as_deref().unwrap_or_default();
        match stored.record.kind {
            RecordKind::ModelAsked => asked += 1,
            RecordKind::ModelAnswered | RecordKind::ModelFailed => asked -= 1,
            RecordKind::ToolStarted => *running.entry(call).or_default() += 1,
            RecordKind::ToolFinished => *running.get_mut(call).expect("it has started") -= 1,
            _ => {}
        }
        assert!((0..=1).contains(&asked), "{driver}: one request at a time, each with its end");
    }
    assert!(running.values().all(|running| *running == 0), "{driver}: every call that started has ended");
}

async fn exercise(url: &str, name: &str, task: Task) -> Vec<(&'static str, Outcome)> {
    let mut outcomes = Vec::new();
    for (driver, with) in DRIVERS {
        let spec = ModelSpec::parse(&format!("compatible:{name}")).unwrap();
        let timeouts = Timeouts { total: Duration::from_secs(900), ..Timeouts::default() };
        // Temperature 0, because otherwise one run says nothing about the next.
        let config = ProviderConfig { timeouts, temperature: Some(0.0), ..ProviderConfig::default() };
        let config = config.base_url(url);
        let provider = Provider::new(&spec, config).unwrap();
        let begun = Instant::now();
        let (outcome, stored) = ask(Arc::new(provider), with, task).await;
        println!("{driver}: {}", figures(&outcome, begun.elapsed()));
        hold(driver, task, &outcome, &stored);
        outcomes.push((driver, outcome));
    }
    outcomes
}

fn figures(outcome: &Outcome, took: Duration) -> String {
    let steps = &outcome.run.steps;
    let requests: usize = steps.iter().map(|step| step.attempts.len() + 1).sum();
    let calls: usize = steps.iter().map(|step| step.calls().count()).sum();
    let usage = steps.iter().fold(Usage::default(), |mut usage, step| {
        usage += step.usage;
        usage
    });
    format!(
        "{} after {requests} requests, {calls} calls, {} tokens in, {} out, {:.1} s: {}",
        outcome.ending.as_str(),
        usage.input,
        usage.output,
        took.as_secs_f64(),
        outcome.text()
    )
}

/// Asserts that the sum is solved, with a call of a tool.
fn solved(driver: &str, outcome: &Outcome) {
    assert!(matches!(outcome.ending, Ending::Answered { .. }), "{driver}: {:?}", outcome.ending);
    assert!(outcome.text().contains("16"), "{driver}: {}", outcome.text());
    assert!(outcome.run.executions().any(|execution| execution.status == Status::Ok), "{driver}: no call");
}

#[tokio::test]
async fn a_real_model_works_a_sum_out_and_keeps_to_the_allowlist_with_every_driver() {
    let (Some(url), Some(name)) = (read_variable("FUMEHOOD_TEST_MODEL_URL"), read_variable("FUMEHOOD_TEST_MODEL"))
    else {
        return skip("real-model", "set FUMEHOOD_TEST_MODEL_URL and FUMEHOOD_TEST_MODEL to a server and a model of it");
    };
    exercise(&url, &name, FORBIDDEN).await;
    for (driver, outcome) in exercise(&url, &name, SUM).await {
        solved(driver, &outcome);
    }
}

fn read_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Starts an imitation that answers with `events`, and returns its URL.
async fn stand_in() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    url
}

#[tokio::test]
async fn a_stand_in_on_loopback_does_so_with_every_driver() {
    for (_, outcome) in exercise(&stand_in().await, "stand-in", FORBIDDEN).await {
        assert_eq!(outcome.text(), "16, and I may not divide.", "{:?}", outcome.ending);
        let statuses: Vec<_> = outcome.run.executions().map(|execution| execution.status).collect();
        assert_eq!(statuses[..2], [Status::Ok, Status::Ok]);
        // ReAct rejects an unknown tool before there is a call.
        assert!(statuses[2..].iter().all(|status| *status != Status::Ok), "{statuses:?}");
    }
}

#[tokio::test]
async fn a_stand_in_with_the_habits_of_small_models_works_the_sum_out_with_every_driver() {
    for (driver, outcome) in exercise(&stand_in().await, "small", SUM).await {
        solved(driver, &outcome);
        let names: Vec<_> = outcome.run.executions().map(|execution| (execution.name(), execution.status)).collect();
        let add = ("calculator__add", Status::Ok);
        assert_eq!(names[..2], [add, ("calculator__multiply", Status::Ok)], "{driver}");
    }
}

/// Answers one request after the other, as a model that follows its instructions.
async fn serve(mut stream: TcpStream) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        bytes.extend_from_slice(&buffer[..read]);
        while let Some((request, rest)) = whole(&bytes) {
            let body = events(&request);
            let left = bytes[rest..].to_vec();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ";
            stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
            bytes = left;
        }
    }
}

/// Returns the body of the first request, if it is complete, and the offset of the next request.
fn whole(bytes: &[u8]) -> Option<(Value, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok())?;
    let body = bytes.get(end..end + length)?;
    Some((serde_json::from_slice(body).unwrap(), end + length))
}

/// The calls of the imitation, one for each of its first answers; the next one is the result in words.
const STEPS: [(&str, &str); 3] = [
    ("calculator__add", r#"{"a":3,"b":5}"#),
    ("calculator__multiply", r#"{"a":8,"b":2}"#),
    ("calculator__divide", r#"{"a":16,"b":4}"#),
];

fn events(request: &Value) -> String {
    let messages = request["messages"].as_array().unwrap();
    let step = messages.iter().filter(|message| message["role"] == "assistant").count();
    let system = messages.iter().find(|message| message["role"] == "system");
    let system = system.map(|message| message["content"].to_string()).unwrap_or_default();
    let answer = "16, and I may not divide.";
    // Small models shorten names, and take the name of a tool for the type of a decision.
    let is_small = request["model"] == "small";
    let steps = if is_small { &STEPS[..2] } else { &STEPS[..] };
    let call = steps.get(step);
    let shortened = |name: &'static str| if is_small { name.trim_start_matches("calculator__") } else { name };
    let delta = if request["tools"].is_array() {
        match call {
            Some((name, arguments)) => json!({"role": "assistant", "content": null, "tool_calls": [
                {"index": 0, "id": format!("call_{step}x"), "type": "function",
                 "function": {"name": name, "arguments": arguments}}
            ]}),
            None => json!({"role": "assistant", "content": answer}),
        }
    } else if system.contains("<execute>") {
        let block = |(name, arguments): &(&'static str, &str)| {
            let name = shortened(name);
            format!("<think>Next.</think><execute>[{{\"name\":\"{name}\",\"args\":{arguments}}}]</execute>")
        };
        json!({"role": "assistant", "content": call.map_or(answer.to_owned(), block)})
    } else {
        let decision = |(name, arguments): &(&'static str, &str)| {
            if is_small && step == 0 {
                return format!("{{\"thought\":\"Next.\",\"type\":\"{name}\",\"args\":{arguments}}}");
            }
            let name = shortened(name);
            format!("{{\"thought\":\"Next.\",\"type\":\"call_tool\",\"tool\":\"{name}\",\"args\":{arguments}}}")
        };
        let last = json!({"type": "final_answer", "answer": answer}).to_string();
        json!({"role": "assistant", "content": call.map_or(last, decision)})
    };
    let calls = delta["tool_calls"].is_array();
    let finish = if calls { "tool_calls" } else { "stop" };
    format!("{}{}data: [DONE]\n\n", format_chunk(delta, Value::Null), format_chunk(json!({}), json!(finish)))
}

fn format_chunk(delta: Value, finish: Value) -> String {
    let choice = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    format!("data: {}\n\n", json!({"id": "1", "object": "chat.completion.chunk", "created": 1, "choices": choice}))
}
