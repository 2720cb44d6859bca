//! The agent loop around sandboxed tools: every driver, the refusals and limits that a model reads, and the log of a
//! run.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fumehood::agent::agent::{AgentEvent, Outcome};
use fumehood::agent::batch::BatchDriver;
use fumehood::agent::driver::Driver;
use fumehood::agent::execution::Status;
use fumehood::agent::native::NativeDriver;
use fumehood::agent::react::ReactDriver;
use fumehood::chat::Delta;
use fumehood::event_log::{EventLog, Filter, Options};
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::record::{NullRecorder, RecordKind, Recorder};
use fumehood::{ErrorKind, Host, Limits, Load};
use fumehood_tests::component;
use serde_json::json;

const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../example-tools/dist/calculator.wasm");

async fn host() -> Host {
    let host = Host::builder().concurrency(8).memory_ceiling(64 << 20).build().unwrap();
    host.load(Load::path(Path::new(CALCULATOR))).await.unwrap();
    let short = Limits::default().deadline(Duration::from_millis(100));
    host.load(Load::bytes("hostile", component("spin").unwrap()).limits(short)).await.unwrap();
    host
}

/// Runs an agent that may use every tool of the host.
async fn run(driver: impl Driver + 'static, replies: Vec<ScriptedReply>, recorder: Arc<dyn Recorder>) -> Outcome {
    let host = host().await;
    let mut agent = host
        .agent(Arc::new(ScriptedModel::new(replies)))
        .allow_everything()
        .driver(driver)
        .recorder(recorder)
        .build()
        .unwrap();
    let outcome = agent.run("What is (3 + 5) * 2?").await.unwrap();
    agent.close().await.unwrap();
    outcome
}

fn executions(outcome: &Outcome) -> Vec<(String, Status)> {
    let steps = outcome.run.steps.iter();
    steps.flat_map(|step| step.executions.iter().map(|it| (it.name().to_owned(), it.status))).collect()
}

fn expecting(reply: ScriptedReply, what: &str) -> ScriptedReply {
    reply.expect_text(what)
}

#[tokio::test]
async fn the_sandboxed_calculator_works_it_out_with_every_driver() {
    let answer = "It is 16.";
    let native = vec![
        ScriptedReply::call("calculator__add", r#"{"a": 3, "b": 5}"#),
        expecting(ScriptedReply::call("calculator__multiply", r#"{"a": 8, "b": 2}"#), "8"),
        expecting(ScriptedReply::text(answer), "16"),
    ];
    let react = vec![
        ScriptedReply::text(decide("calculator__add", json!({"a": 3, "b": 5}))),
        expecting(ScriptedReply::text(decide("calculator__multiply", json!({"a": 8, "b": 2}))), "8"),
        expecting(ScriptedReply::text(json!({"type": "final_answer", "answer": answer}).to_string()), "16"),
    ];
    let batch = vec![
        ScriptedReply::text(execute_block("calculator__add", json!({"a": 3, "b": 5}))),
        expecting(ScriptedReply::text(execute_block("calculator__multiply", json!({"a": 8, "b": 2}))), "8"),
        expecting(ScriptedReply::text(answer), "16"),
    ];
    for (name, outcome) in [
        ("native", run(NativeDriver::default(), native, Arc::new(NullRecorder)).await),
        ("react", run(ReactDriver::default(), react, Arc::new(NullRecorder)).await),
        ("batch", run(BatchDriver::new(), batch, Arc::new(NullRecorder)).await),
    ] {
        assert_eq!(outcome.text(), answer, "{name}: {:?}", outcome.ending);
        let expected = [("calculator__add".to_owned(), Status::Ok), ("calculator__multiply".to_owned(), Status::Ok)];
        assert_eq!(executions(&outcome), expected, "{name}");
    }
}

fn decide(tool: &str, args: serde_json::Value) -> String {
    json!({"thought": "One step.", "type": "call_tool", "tool": tool, "args": args}).to_string()
}

fn execute_block(tool: &str, args: serde_json::Value) -> String {
    format!("<think>One step.</think><execute>{}</execute>", json!([{"name": tool, "args": args}]))
}

#[tokio::test]
async fn nobody_sees_thoughts_and_calls_of_a_batch_reply_while_it_streams() {
    let host = host().await;
    let calls = json!([{"name": "calculator__add", "args": {"a": 3, "b": 5}}]);
    let replies = vec![
        ScriptedReply::text(format!("Let me see.<think>secret</think><execute>{calls}</execute>")),
        ScriptedReply::text("It is 8."),
    ];
    let seen = Arc::new(Mutex::new(String::new()));
    let spoken = Arc::clone(&seen);
    let agent = host.agent(Arc::new(ScriptedModel::new(replies))).allow_everything();
    let mut agent = agent.driver(BatchDriver::new()).build().unwrap();
    agent.tap().wiretap(move |event| {
        if let AgentEvent::Delta { delta: Delta::Text(text), .. } = event {
            spoken.lock().unwrap().push_str(text);
        }
    });
    assert_eq!(agent.run("3 + 5?").await.unwrap().text(), "It is 8.");
    assert_eq!(*seen.lock().unwrap(), "Let me see.It is 8.");
}

#[tokio::test]
async fn a_model_repairs_a_bad_call_survives_a_tool_that_hangs_and_all_of_it_is_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.db");
    let log = Arc::new(EventLog::open(&path, &Options::default()).unwrap());
    let replies = vec![
        ScriptedReply::call("calculator__add", r#"{"a": "3", "b": 5}"#),
        expecting(ScriptedReply::call("calculator__add", r#"{"a": 3, "b": 5}"#), "expected a number"),
        expecting(ScriptedReply::call("hostile__run", "{}"), "8"),
        expecting(ScriptedReply::call("calculator__launch", "{}"), "did not finish within"),
        expecting(ScriptedReply::text("It is 16, and one tool hangs."), "not found"),
    ];
    let outcome = run(NativeDriver::default(), replies, Arc::clone(&log) as Arc<dyn Recorder>).await;
    assert_eq!(outcome.text(), "It is 16, and one tool hangs.", "{:?}", outcome.ending);
    let statuses: Vec<_> = executions(&outcome).into_iter().map(|(_, status)| status).collect();
    let expected = [Status::RejectedSchema, Status::Ok, Status::HandlerError, Status::RejectedNotFound];
    assert_eq!(statuses, expected);
    let kinds: Vec<_> = outcome.run.steps.iter().flat_map(|step| step.executions.iter()).collect();
    assert_eq!(kinds[0].result.metadata.fuel_used, 0, "not one guest instruction");
    assert_eq!(kinds[2].error().unwrap().kind, ErrorKind::Deadline);

    log.flush().await.unwrap();
    let of = |kind| log.reader().query(&Filter { kind: Some(kind), ..Filter::default() }).unwrap();
    assert_eq!(of(RecordKind::ToolStarted).len(), 2);
    let finished = of(RecordKind::ToolFinished);
    let ended: Vec<_> = finished.iter().map(|stored| stored.record.status.as_deref().unwrap_or_default()).collect();
    assert_eq!(ended, ["ok", "deadline"]);
    assert!(finished.iter().all(|stored| stored.record.digest.is_some()), "which bytes ran is known");
    assert_eq!(of(RecordKind::ToolRejected).len(), 2);
    assert_eq!(of(RecordKind::SessionFinished).len(), 1);
    let report = log.reader().verify(None).unwrap();
    assert!(report.finding.is_none(), "{report:?}");
}
