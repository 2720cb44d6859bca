//! Batches: concurrent calls, the order of results, and early ends.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fumehood_agent::agent::Tap;
use fumehood_agent::execution::Status;
use fumehood_agent::executor::{BatchEnd, ToolExecutor as _};
use fumehood_agent::pipeline::Modes;
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltIns};
use fumehood_core::call::CallContext;
use fumehood_core::policy::call::{Decision, Policies};
use fumehood_core::record::{NullRecorder, RecordKind};

use super::stage::{Nothing, Stage, before, intent, stage, stage_of};

const ADD: (&str, &str) = ("add", r#"{"a": 1, "b": 2}"#);

#[tokio::test]
async fn one_execution_for_each_call_in_call_order() {
    let stage = stage(|builder| builder);
    let outcome = stage.batch(&[("fail", "{}"), ADD, ("nope", "{}")]).await;
    let names: Vec<_> = outcome.executions.iter().map(|execution| execution.name()).collect();
    assert_eq!(names, ["fail", "add", "nope"]);
}

#[tokio::test]
async fn a_failed_call_never_blocks_its_siblings() {
    let stage = stage(|builder| builder);
    let outcome = stage.batch(&[("panic", "{}"), ADD, ("echo", "not json"), ADD]).await;
    let ok: Vec<_> = outcome.executions.iter().map(|execution| !execution.has_error()).collect();
    assert_eq!(ok, [false, true, false, true]);
}

fn sleeper() -> Arc<BuiltIns> {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Millis {
        millis: u64,
    }
    let tools = BuiltIns::default();
    let run = |args: Millis, _: CallContext| async move {
        tokio::time::sleep(Duration::from_millis(args.millis)).await;
        Ok::<_, BuiltInError>(args.millis)
    };
    tools.register(BuiltIn::new("sleep", "Sleeps.", run).unwrap()).unwrap();
    Arc::new(tools)
}

#[tokio::test]
async fn the_calls_of_a_batch_run_at_the_same_time() {
    let stage = stage_of(sleeper(), |builder| builder);
    let began = Instant::now();
    stage.batch(&[("sleep", r#"{"millis": 100}"#); 3]).await;
    assert!(began.elapsed() < Duration::from_millis(250), "{:?}", began.elapsed());
}

#[tokio::test]
async fn results_keep_the_order_of_calls_whatever_ends_first() {
    let stage = stage_of(sleeper(), |builder| builder);
    let calls = [("sleep", r#"{"millis": 60}"#), ("sleep", r#"{"millis": 30}"#), ("sleep", r#"{"millis": 1}"#)];
    let outcome = stage.batch(&calls).await;
    let texts: Vec<_> = outcome.executions.iter().map(|execution| execution.result.text().unwrap()).collect();
    assert_eq!(texts, ["60", "30", "1"]);
}

#[tokio::test]
async fn a_tool_sees_the_id_of_its_call() {
    let tools = Arc::new(BuiltIns::default());
    let id = |_: Nothing, context: CallContext| std::future::ready(Ok::<_, BuiltInError>(context.id));
    tools.register(BuiltIn::new("id", "Returns the id of its call.", id).unwrap()).unwrap();
    let stage = stage_of(tools, |builder| builder);
    let calls = ["c1", "", ""].map(|id| intent(id, "id", "{}")).to_vec();
    let outcome = stage.pipeline.execute(calls, &stage.scope).await;
    let seen: Vec<String> = outcome.executions.iter().map(|it| it.result.text().unwrap().into_owned()).collect();
    let ids: Vec<&String> = outcome.executions.iter().map(|it| &it.call.id).collect();
    assert_eq!(seen.iter().collect::<Vec<_>>(), ids);
    assert_eq!(seen[0], "c1");
    assert!(!seen[1].is_empty() && seen[1] != seen[2], "{seen:?}");
    let recorded = stage.recorder.of_kind(RecordKind::ToolStarted);
    let recorded: BTreeSet<&str> = recorded.iter().map(|record| record.body["model_call"].as_str().unwrap()).collect();
    assert_eq!(recorded, seen.iter().map(String::as_str).collect());
}

#[tokio::test]
async fn an_empty_call_id_is_replaced_by_one_that_all_records_share() {
    let stage = stage(|builder| builder);
    let outcome = stage.pipeline.execute(vec![intent("", ADD.0, ADD.1)], &stage.scope).await;
    let id = &outcome.executions[0].call.id;
    assert!(!id.is_empty());
    assert_eq!(&outcome.executions[0].result.id, id);
    for kind in [RecordKind::ToolStarted, RecordKind::ToolFinished, RecordKind::ToolResult] {
        assert_eq!(stage.recorder.of_kind(kind)[0].body["model_call"], serde_json::Value::from(id.as_str()));
    }
}

#[tokio::test]
async fn a_stop_ends_the_run_and_is_no_result() {
    let stage = stage(|builder| builder);
    let outcome = stage.batch(&[ADD, ("stop", "{}")]).await;
    assert_eq!(outcome.ended, Some(BatchEnd::Stop { reason: "enough".to_owned() }));
    assert!(outcome.executions.iter().all(|execution| execution.name() == "add"));
    assert!(
        stage
            .recorder
            .of_kind(RecordKind::ToolFinished)
            .iter()
            .any(|record| record.status.as_deref() == Some("stopped"))
    );
}

#[tokio::test]
async fn the_first_failure_ends_the_batch_if_asked_to() {
    let calls = [ADD, ("fail", "{}"), ADD];
    let modes = Modes { throw_on_tool_failure: true, ..Modes::default() };
    let strict = stage(|builder| builder.modes(modes));
    let outcome = strict.batch(&calls).await;
    assert_eq!(outcome.ended, Some(BatchEnd::Failed { index: 1 }));
    assert_eq!(outcome.executions.len(), 2);
    let lenient = stage(|builder| builder).batch(&calls).await;
    assert_eq!((lenient.ended, lenient.executions.len()), (None, 3));
}

fn block_echo() -> Policies {
    let block = before("no_echo", |call| match call.tool().full_name() {
        "echo" => Decision::deny("no echo"),
        _ => Decision::Allow,
    });
    [block].into_iter().collect()
}

#[tokio::test]
async fn the_first_block_ends_the_batch_if_asked_to() {
    let calls = [ADD, ("echo", r#"{"text": "x"}"#), ADD];
    let modes = Modes { stop_on_tool_block: true, ..Modes::default() };
    let outcome = stage(|builder| builder.call_hooks(block_echo()).modes(modes)).batch(&calls).await;
    assert_eq!(outcome.ended, Some(BatchEnd::Blocked { index: 1 }));
    assert_eq!(outcome.executions.len(), 2);
}

#[tokio::test]
async fn without_flags_everything_is_collected() {
    let outcome = stage(|builder| builder.call_hooks(block_echo()))
        .batch(&[ADD, ("echo", r#"{"text": "x"}"#), ("fail", "{}"), ADD])
        .await;
    let statuses: Vec<_> = outcome.executions.iter().map(|execution| execution.status).collect();
    assert_eq!(statuses, [Status::Ok, Status::Blocked, Status::HandlerError, Status::Ok]);
}

#[tokio::test]
async fn a_batch_costs_in_proportion_to_its_calls() {
    async fn time(stage: &Stage, count: usize) -> Duration {
        let began = Instant::now();
        let outcome = stage.batch(&vec![ADD; count]).await;
        assert_eq!(outcome.executions.len(), count);
        began.elapsed()
    }

    let stage = stage(|builder| builder);
    time(&stage, 200).await;
    let few = time(&stage, 1_000).await;
    let many = time(&stage, 10_000).await;
    // Ten times as many may take forty times as long on a busy machine; a hundred times would be quadratic.
    assert!(many < few * 40, "1,000: {few:?}, 10,000: {many:?}");
}

#[tokio::test]
async fn records_the_end_of_a_dropped_call() {
    let stage = stage_of(sleeper(), |builder| builder);
    let calls = [("sleep", r#"{"millis": 10000}"#)];
    let waited = tokio::time::timeout(Duration::from_millis(50), stage.batch(&calls)).await;
    assert!(waited.is_err());
    assert_eq!(stage.recorder.of_kind(RecordKind::ToolFinished)[0].status.as_deref(), Some("cancelled"));
}

#[tokio::test]
async fn onlookers_see_successful_actions() {
    let tap = Arc::new(Tap::new(Arc::new(NullRecorder)));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let results = Arc::clone(&seen);
    tap.on_record(RecordKind::ToolResult, move |record| {
        results.lock().unwrap().push(format!(
            "{} {}",
            record.tool.as_deref().unwrap(),
            record.body["result"]["status"]
        ));
    });
    let recorder = Arc::clone(&tap);
    stage(|builder| builder.recorder(recorder)).batch(&[ADD, ("stop", "{}")]).await;
    assert_eq!(*seen.lock().unwrap(), [r#"add "ok""#]);
}
