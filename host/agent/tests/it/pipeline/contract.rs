//! Calls before they run, the contract of a tool, and the records and hooks after a call.

use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use fumehood_agent::execution::Status;
use fumehood_agent::executor::{Scope, ToolExecutor as _};
use fumehood_agent::pipeline::PipelineBuilder;
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltInTool as _, BuiltIns};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::content::Content;
use fumehood_core::policy::call::Decision;
use fumehood_core::record::{Durability, Record, RecordError, RecordKind, Recorder};
use fumehood_core::tool::ToolProvider as _;
use serde_json::json;

use super::stage::{
    Nothing, Pair, RecordingRecorder, Stage, Text, after, everything, intent, read_only, stage, stage_of, tools,
};

const ADD: &str = r#"{"a": 1, "b": 2}"#;

/// Returns a tool and the counter of its calls.
fn counted() -> (Arc<BuiltIns>, Arc<Mutex<u32>>) {
    let runs = Arc::new(Mutex::new(0));
    let counts = Arc::clone(&runs);
    let run = move |_: Nothing, _: CallContext| {
        *counts.lock().unwrap() += 1;
        async { Ok::<_, BuiltInError>(1) }
    };
    let tools = BuiltIns::default();
    tools.register(BuiltIn::new("act", "Acts.", run).unwrap()).unwrap();
    (Arc::new(tools), runs)
}

#[tokio::test]
async fn a_call_is_intent_only_until_the_pipeline_runs_it() {
    let (tools, runs) = counted();
    let stage = stage_of(tools, |builder| builder);
    let call = intent("c", "act", "{}");
    let written = serde_json::to_value(&call).unwrap();
    assert_eq!(written, json!({"id": "c", "name": "act", "arguments": "{}"}));
    drop(stage.pipeline.execute(vec![call.clone()], &stage.scope));
    assert_eq!((*runs.lock().unwrap(), stage.recorder.kinds().len()), (0, 0));
    stage.pipeline.execute(vec![call], &stage.scope).await;
    assert_eq!((*runs.lock().unwrap(), stage.recorder.kinds().len()), (1, 3));
}

/// A recorder that never finishes to write the start of a call.
struct HangingRecorder(Arc<RecordingRecorder>);

impl Recorder for HangingRecorder {
    fn record(&self, record: Record, durability: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        let is_start = record.kind == RecordKind::ToolStarted;
        let recorded = self.0.record(record, durability);
        if is_start { Box::pin(std::future::pending()) } else { recorded }
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_while_its_start_is_written_has_an_end() {
    let (tools, runs) = counted();
    let recorder = Arc::new(RecordingRecorder::default());
    let hanging = Arc::new(HangingRecorder(Arc::clone(&recorder)));
    let stage = stage_of(tools, |builder| builder.recorder(hanging));
    let mut call = stage.pipeline.execute(vec![intent("c", "act", "{}")], &stage.scope);
    while recorder.of_kind(RecordKind::ToolStarted).is_empty() {
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        tokio::task::yield_now().await;
    }
    drop(call);
    let ends = recorder.of_kind(RecordKind::ToolFinished);
    assert_eq!(ends.iter().map(|end| end.status.as_deref()).collect::<Vec<_>>(), [Some("cancelled")]);
    assert_eq!(*runs.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_tool_is_a_name_a_description_a_schema_a_check_of_the_actor_and_a_function() {
    let tools = BuiltIns::default();
    assert!(tools.tools().is_empty(), "the host brings all tools");
    let run = |pair: Pair, call: CallContext| async move {
        Ok::<_, BuiltInError>(format!("{} for {}", pair.a + pair.b, call.actor.as_deref().unwrap_or("nobody")))
    };
    let tool = BuiltIn::new("add", "Adds two numbers.", run).unwrap().with_authorize(|actor, call| {
        assert_eq!(call.tool().full_name(), "add");
        actor == Some("ann")
    });
    let spec = tool.tool().to_spec();
    assert_eq!((spec.name.as_str(), spec.description.as_str()), ("add", "Adds two numbers."));
    assert_eq!(spec.parameters["required"], json!(["a", "b"]));
    tools.register(tool).unwrap();
    let mut stage = stage_of(Arc::new(tools), |builder| builder);
    assert_eq!(stage.call("add", ADD).await.status, Status::RejectedUnauthorized);
    stage.scope.actor = Some(Arc::from("ann"));
    assert_eq!(stage.call("add", ADD).await.result.text().as_deref(), Some("3 for ann"));
    let bare = PipelineBuilder::default().allowlists(everything()).build().unwrap();
    assert!(bare.specs(&stage.scope).is_empty());
}

#[tokio::test]
async fn a_hook_can_mark_what_writes_touched_and_leaves_reads_alone() {
    let tools = BuiltIns::default();
    let run = |text: Text, _: CallContext| async move { Ok::<_, BuiltInError>(text.text) };
    tools.register(BuiltIn::new("read", "Reads.", run).unwrap().with_annotations(read_only())).unwrap();
    tools.register(BuiltIn::new("write", "Writes.", run).unwrap()).unwrap();
    let dirty = Arc::new(Mutex::new(Vec::new()));
    let marks = Arc::clone(&dirty);
    let mark = after("dirty", move |call, outcome| {
        if outcome.is_ok() && call.tool().definition().annotations.read_only != Some(true) {
            marks.lock().unwrap().push(call.arguments()["text"].as_str().unwrap_or_default().to_owned());
        }
        Decision::Allow
    });
    let stage = stage_of(Arc::new(tools), |builder| builder.call_hooks([mark].into_iter().collect()));
    stage.batch(&[("read", r#"{"text": "a.txt"}"#), ("write", r#"{"text": "b.txt"}"#), ("write", "{}")]).await;
    assert_eq!(*dirty.lock().unwrap(), ["b.txt"]);
}

#[tokio::test]
async fn a_hook_changes_the_result_after_the_call() {
    let change = after("change", |_, outcome| {
        assert!(outcome.is_ok());
        Decision::Rewrite { to: Ok(vec![Content::text("changed")]), note: None }
    });
    let stage = stage(|builder| builder.call_hooks([change].into_iter().collect()));
    assert_eq!(stage.call("add", ADD).await.result.text().as_deref(), Some("changed"));
}

#[tokio::test]
async fn events_of_a_call_say_who_where_what_and_when() {
    fn find_record(stage: &Stage, kind: RecordKind, call: &str) -> Record {
        stage.recorder.of_kind(kind).into_iter().find(|record| record.body["model_call"] == call).unwrap()
    }

    let mut stage = stage_of(tools(), |builder| builder);
    stage.scope = Scope {
        actor: Some(Arc::from("ann")),
        parent_session: Some("parent".to_owned()),
        skill: None,
        cause: Some("rec-9".to_owned()),
        step: 4,
        ..stage.scope
    };
    stage.batch(&[("add", ADD), ("fail", "{}")]).await;
    for call in ["c0", "c1"] {
        let started = find_record(&stage, RecordKind::ToolStarted, call);
        let finished = find_record(&stage, RecordKind::ToolFinished, call);
        for record in [&started, &finished] {
            assert_eq!((record.session.as_str(), record.actor.as_deref()), ("s", Some("ann")));
            assert_eq!((&record.body["execution"], &record.body["step"]), (&json!("e"), &json!(4)));
            assert_eq!(record.body["parent_session"], "parent");
            assert_eq!(record.tool.as_deref(), Some(if call == "c0" { "add" } else { "fail" }));
        }
        assert_eq!(started.parent.as_deref(), Some("rec-9"));
        assert_eq!(finished.parent.as_deref(), Some(started.id.as_str()));
        assert_eq!(started.call, finished.call);
        assert!(started.at <= finished.at && finished.body["duration_ms"].is_number());
    }
    assert_eq!(find_record(&stage, RecordKind::ToolStarted, "c0").body["arguments"], json!({"a": 1, "b": 2}));
    let good = find_record(&stage, RecordKind::ToolResult, "c0");
    let bad = find_record(&stage, RecordKind::ToolResult, "c1");
    assert_eq!((good.status.as_deref(), bad.status.as_deref()), (Some("ok"), Some("tool_failed")));
    assert!(good.body["result"].to_string().contains('3'), "{}", good.body);
    assert!(bad.body["result"].to_string().contains("it failed"), "{}", bad.body);
}

/// A recorder that accepts a number of records and then fails.
struct LimitedRecorder(Mutex<u32>);

impl Recorder for LimitedRecorder {
    fn record(&self, _: Record, _: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        let mut left = self.0.lock().unwrap();
        let taken = left.checked_sub(1).map(|fewer| *left = fewer);
        Box::pin(std::future::ready(taken.ok_or_else(|| RecordError("the disk is full".to_owned()))))
    }
}

#[tokio::test]
async fn a_call_whose_start_is_not_kept_does_not_run_and_one_that_ran_keeps_its_result() {
    for (room, ran) in [(0, 0), (1, 1), (2, 1)] {
        let (tools, runs) = counted();
        let stage = stage_of(tools, |builder| builder.recorder(Arc::new(LimitedRecorder(Mutex::new(room)))));
        let execution = stage.call("act", "{}").await;
        assert_eq!(*runs.lock().unwrap(), ran, "{room}");
        if ran == 1 {
            assert_eq!(execution.result.text().as_deref(), Some("1"), "{room}");
        } else {
            assert!(execution.error_message().contains("the disk is full"), "{room}");
        }
    }
}
