//! Registration, records, knowledge and memory.

use std::sync::{Arc, Mutex};

use fumehood_agent::agent::Tap;
use fumehood_agent::allowlist::{Allowlists, Skill};
use fumehood_agent::execution::Status;
use fumehood_agent::executor::ToolExecutor as _;
use fumehood_agent::knowledge::Knowledge;
use fumehood_agent::memory::{self, InMemoryStore, Memory};
use fumehood_agent::persistence::Persistence;
use fumehood_agent::pipeline::PipelineBuilder;
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltInTool as _, BuiltIns, ToolError, ToolPolicy};
use fumehood_core::call::CallContext;
use fumehood_core::call::content::Content;
use fumehood_core::call::event::Progress;
use fumehood_core::record::{NullRecorder, RecordKind};
use fumehood_core::tool::ToolProvider as _;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::stage::{Nothing, Pair, RecordingRecorder, Stage, Text, everything, stage, stage_of, tools};

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    /// Whom to greet.
    name: String,
    #[serde(default = "twice")]
    times: u8,
}

fn twice() -> u8 {
    2
}

#[tokio::test]
async fn a_field_with_a_default_need_not_be_given() {
    let tools = BuiltIns::default();
    let run =
        |args: Greeting, _: CallContext| async move { Ok::<_, BuiltInError>(args.name.repeat(args.times.into())) };
    tools.register(BuiltIn::new("greet", "Greets.", run).unwrap()).unwrap();
    let stage = stage_of(Arc::new(tools), |builder| builder);
    let schema = &stage.pipeline.specs(&stage.scope)[0].parameters;
    assert_eq!(schema["required"], json!(["name"]));
    assert_eq!(stage.call("greet", r#"{"name": "a"}"#).await.result.text().as_deref(), Some("aa"));
}

#[test]
fn the_schema_comes_from_the_type() {
    let run = |args: Greeting, _: CallContext| async move { Ok::<_, BuiltInError>(args.name) };
    let tool = BuiltIn::new("greet", "Greets.", run).unwrap();
    let name = json!({"type": "string", "description": "Whom to greet."});
    assert_eq!(tool.tool().input_schema()["properties"]["name"], name);
}

#[tokio::test]
async fn the_function_gets_and_gives_typed_values() {
    #[derive(serde::Serialize)]
    struct Sum {
        sum: i64,
    }
    let tools = BuiltIns::default();
    let run = |pair: Pair, _: CallContext| async move { Ok::<_, BuiltInError>(Sum { sum: pair.a + pair.b }) };
    tools.register(BuiltIn::new("sum", "Adds.", run).unwrap()).unwrap();
    let execution = stage_of(Arc::new(tools), |builder| builder).call("sum", r#"{"a": 1, "b": 2}"#).await;
    assert_eq!(execution.result.text().as_deref(), Some(r#"{"sum":3}"#));
}

/// An even integer. Its schema accepts every integer.
#[derive(JsonSchema)]
#[schemars(transparent)]
struct Even(#[allow(dead_code, reason = "only its being there matters")] i64);

impl<'de> Deserialize<'de> for Even {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        if number % 2 == 0 { Ok(Self(number)) } else { Err(serde::de::Error::custom("odd")) }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Pairs {
    #[allow(dead_code, reason = "only its being there matters")]
    count: Even,
}

#[tokio::test]
async fn arguments_that_the_type_does_not_take_never_reach_the_function() {
    let tools = BuiltIns::default();
    let run = |_: Pairs, _: CallContext| async move { Ok::<_, BuiltInError>("ran") };
    tools.register(BuiltIn::new("pairs", "Takes even numbers.", run).unwrap()).unwrap();
    let stage = stage_of(Arc::new(tools), |builder| builder);
    let odd = stage.call("pairs", r#"{"count": 3}"#).await;
    assert_eq!(odd.status, Status::RejectedSchema);
    assert!(odd.error_message().contains("odd"));
    assert!(stage.recorder.of_kind(RecordKind::ToolStarted).is_empty());
    assert_eq!(stage.call("pairs", r#"{"count": 4}"#).await.status, Status::Ok);
}

#[test]
fn a_name_is_registered_once_and_replaced_on_purpose() {
    fn echo() -> BuiltIn<Nothing, i32> {
        BuiltIn::new("echo", "Another.", |_: Nothing, _| async { Ok::<_, BuiltInError>(1) }).unwrap()
    }

    let tools = tools();
    assert!(tools.register(echo()).unwrap_err().to_string().contains("'echo' is already registered"));
    assert!(tools.replace(Arc::new(echo())).is_some());
    assert_eq!(tools.find("echo").unwrap().to_spec().description, "Another.");
    tools.clear();
    assert!(tools.tools().is_empty());
}

#[test]
fn a_tool_that_asks_who_is_calling_is_not_made() {
    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code, reason = "only its schema matters")]
    struct Args {
        user_id: u32,
    }
    let made = BuiltIn::new("orders", "Orders.", |_: Args, _| async { Ok::<_, BuiltInError>(1) });
    assert!(matches!(made.err(), Some(ToolError::Identity(error)) if error.parameter == "userId"));
}

#[allow(deprecated, reason = "that it works is what is tested")]
#[test]
fn skills_take_handles_and_names_still_work() {
    let tools = BuiltIns::default();
    let handle =
        tools.register(BuiltIn::new("a", "A.", |_: Nothing, _| async { Ok::<_, BuiltInError>(1) }).unwrap()).unwrap();
    assert_eq!(Skill::new().tool(&handle), Skill::new().tool_named("a"));
}

#[tokio::test]
async fn what_a_tool_keeps_to_itself_is_in_no_record() {
    async fn records_with(persist: Persistence) -> Arc<RecordingRecorder> {
        let stage = stage(|builder| {
            let policy = ToolPolicy { persist: Some(persist), ..ToolPolicy::default() };
            builder.tool_policy("echo", policy)
        });
        let execution = stage.call("echo", r#"{"text": "hunter2"}"#).await;
        assert_eq!(execution.result.text().as_deref(), Some("hunter2"));
        stage.call("echo", r#"{"text": "hunter2", "x": "hunter2"}"#).await;
        stage.recorder
    }

    let redact = Persistence::redact(|_| json!("redacted"), |_, result| Some(json!(result.is_ok())));
    let redacted = records_with(redact).await;
    assert!(!redacted.text().contains("hunter2"), "{}", redacted.text());
    assert_eq!(redacted.of_kind(RecordKind::ToolResult)[0].body["result"], true);
    assert_eq!(redacted.of_kind(RecordKind::ToolStarted)[0].body["arguments"], "redacted");
    let nothing = records_with(Persistence::Nothing).await;
    assert!(!nothing.text().contains("hunter2"));
    assert!(nothing.of_kind(RecordKind::ToolResult).is_empty());
    assert!(records_with(Persistence::Full).await.text().contains("hunter2"));
}

#[tokio::test]
async fn knowledge_is_loaded_when_it_is_called_for() {
    let (stage, loads) = library();
    let specs = serde_json::to_string(&stage.pipeline.specs(&stage.scope)).unwrap();
    assert!(specs.contains("faq") && !specs.contains("the answer"));
    assert_eq!(*loads.lock().unwrap(), 0);
    assert_eq!(stage.call("faq", "{}").await.result.text().as_deref(), Some("the answer"));
    assert_eq!(*loads.lock().unwrap(), 1);
}

#[tokio::test]
async fn reading_knowledge_is_recorded_as_such() {
    let (stage, _) = library();
    stage.call("faq", "{}").await;
    assert_eq!(stage.recorder.of_kind(RecordKind::KnowledgeUsed)[0].tool.as_deref(), Some("faq"));
    stage.call("add", r#"{"a": 1, "b": 2}"#).await;
    assert_eq!(stage.recorder.of_kind(RecordKind::KnowledgeUsed).len(), 1);
}

/// Returns a stage with an entry of knowledge, and the counter of its loads.
fn library() -> (Stage, Arc<Mutex<u32>>) {
    let loads = Arc::new(Mutex::new(0));
    let counts = Arc::clone(&loads);
    let entry = Knowledge::new("faq", "Questions.", move || {
        *counts.lock().unwrap() += 1;
        Box::pin(std::future::ready(Ok("the answer".to_owned())))
    });
    let tools = tools();
    tools.register_tool(Arc::new(entry.unwrap())).unwrap();
    (stage_of(tools, |builder| builder), loads)
}

#[tokio::test]
async fn memory_is_there_for_every_skill_once_it_is_configured() {
    fn lists() -> Allowlists {
        Allowlists { skills: [("s".to_owned(), Skill::new())].into(), ..Allowlists::default() }
    }

    let tools = tools();
    let notes: Arc<dyn Memory> = Arc::new(InMemoryStore::default());
    memory::register(&tools, &notes).unwrap();
    let mut stage = stage_of(tools, |builder| builder.allowlists(lists()).memory_tools());
    stage.scope.skill = Some(Arc::from("s"));
    stage.scope.actor = Some(Arc::from("ann"));
    stage.call("memory_write", r#"{"key": "colour", "text": "blue"}"#).await;
    assert_eq!(stage.call("memory_read", r#"{"key": "colour"}"#).await.result.text().as_deref(), Some("blue"));
    let found = stage.call("memory_search", r#"{"query": "BLUE colour"}"#).await;
    assert_eq!(found.result.text().as_deref(), Some(r#"[{"key":"colour","text":"blue"}]"#));
    stage.scope.actor = Some(Arc::from("bob"));
    assert!(stage.call("memory_read", r#"{"key": "colour"}"#).await.has_error());
}

#[tokio::test]
async fn parts_of_a_result_are_told_while_the_call_runs() {
    let tools = BuiltIns::default();
    let run = |text: Text, call: CallContext| async move {
        call.report(Progress { fraction: Some(0.5), message: Some(text.text.into()), partial: Vec::new() });
        Ok::<_, BuiltInError>("done")
    };
    tools.register(BuiltIn::new("slow", "Takes its time.", run).unwrap()).unwrap();
    let stage = stage_of(Arc::new(tools), |builder| builder);
    stage.call("slow", r#"{"text": "half"}"#).await;
    assert_eq!(
        stage.recorder.kinds()[..3],
        [RecordKind::ToolStarted, RecordKind::ToolPartial, RecordKind::ToolFinished]
    );
    let partial = &stage.recorder.of_kind(RecordKind::ToolPartial)[0];
    assert_eq!((&partial.body["message"], &partial.body["fraction"]), (&json!("half"), &json!(0.5)));
    assert_eq!(partial.parent.as_ref(), Some(&stage.recorder.of_kind(RecordKind::ToolStarted)[0].id));
}

#[tokio::test]
async fn parts_of_results_have_a_channel_of_their_own_while_the_call_runs() {
    let finish = Arc::new(tokio::sync::Notify::new());
    let wait = Arc::new(tokio::sync::Notify::new());
    let tools = BuiltIns::default();
    let release = Arc::clone(&finish);
    let started = Arc::clone(&wait);
    let run = move |text: Text, call: CallContext| {
        let release = Arc::clone(&release);
        let started = Arc::clone(&started);
        async move {
            for part in 1..=3 {
                let partial = vec![Content::text(format!("{} {part}", text.text))];
                call.report(Progress { fraction: Some(0.25), message: None, partial });
            }
            started.notify_one();
            release.notified().await;
            Ok::<_, BuiltInError>("done")
        }
    };
    tools.register(BuiltIn::new("slow", "Takes its time.", run).unwrap()).unwrap();
    let tap = Arc::new(Tap::new(Arc::new(NullRecorder)));
    // Other events are far more than the room there is.
    let mut parts = tap.partial_results(3);
    let mut few = tap.partial_results(1);
    let recorder = Arc::clone(&tap);
    let stage = stage_of(Arc::new(tools), |builder| builder.recorder(recorder));
    let watch = async {
        wait.notified().await;
        let mut seen = Vec::new();
        while let Some(part) = parts.try_next() {
            seen.push(part);
        }
        finish.notify_one();
        seen
    };
    let (execution, seen) = tokio::join!(stage.call("slow", r#"{"text": "part"}"#), watch);
    assert_eq!(execution.status, Status::Ok);
    let texts: Vec<_> = seen.iter().map(|part| part.parts[0]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["part 1", "part 2", "part 3"], "they came before the call had ended");
    assert!(seen.iter().all(|part| part.tool == "slow" && part.session == "s" && part.fraction == Some(0.25)));
    assert!(seen.iter().all(|part| part.execution == execution.id && part.call == execution.call.id));
    assert_eq!((parts.try_next(), parts.lost_parts()), (None, 0));
    assert_eq!((few.try_next(), few.lost_parts()), (seen.first().cloned(), 2));
}

#[tokio::test]
async fn a_record_has_arguments_result_and_cause() {
    let mut stage = stage(|builder| builder);
    stage.scope.cause = Some("asked".to_owned());
    stage.call("add", r#"{ "b": 2, "a": 1 }"#).await;
    let started = &stage.recorder.of_kind(RecordKind::ToolStarted)[0];
    assert_eq!(started.parent.as_deref(), Some("asked"));
    assert_eq!(started.body["arguments"].to_string(), r#"{"a":1,"b":2}"#);
    let finished = &stage.recorder.of_kind(RecordKind::ToolFinished)[0];
    let result = &stage.recorder.of_kind(RecordKind::ToolResult)[0];
    assert_eq!(finished.parent.as_ref(), Some(&started.id));
    assert_eq!(result.parent.as_ref(), Some(&finished.id));
    assert_eq!(result.body["result"]["status"], "ok");
    assert_eq!((&result.body["execution"], &result.body["step"]), (&json!("e"), &json!(1)));
}

#[tokio::test]
async fn every_refusal_is_recorded_with_its_status() {
    let stage = stage(|builder| builder);
    stage.call("nope", "{}").await;
    stage.call("add", "{}").await;
    let rejected = stage.recorder.of_kind(RecordKind::ToolRejected);
    let statuses: Vec<_> = rejected.iter().map(|record| record.body["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["rejected_not_found", "rejected_schema"]);
}

#[tokio::test]
async fn the_calls_of_a_step_are_found_in_order() {
    fn tools_of_step(stage: &Stage, step: u32) -> Vec<String> {
        let started = stage.recorder.of_kind(RecordKind::ToolStarted).into_iter().filter(|at| at.body["step"] == step);
        started.filter_map(|record| record.tool).collect::<Vec<_>>()
    }

    let mut stage = stage(|builder| builder);
    stage.call("add", r#"{"a": 1, "b": 2}"#).await;
    stage.scope.step = 2;
    stage.call("echo", r#"{"text": ""}"#).await;
    stage.call("fail", "{}").await;
    assert_eq!(
        (tools_of_step(&stage, 1), tools_of_step(&stage, 2)),
        (vec!["add".to_owned()], vec!["echo".to_owned(), "fail".to_owned()])
    );
}

#[tokio::test]
async fn every_completion_is_told_to_whoever_listens() {
    let stage = stage(|builder| builder);
    stage.batch(&[("add", r#"{"a": 1, "b": 2}"#), ("panic", "{}")]).await;
    let told: Vec<_> =
        stage.recorder.of_kind(RecordKind::ToolFinished).into_iter().filter_map(|record| record.status).collect();
    assert_eq!(told, ["ok", "trap"]);
}

#[test]
fn nothing_is_reachable_unless_somebody_says_so() {
    let pipeline = PipelineBuilder::default().built_ins(tools()).build().unwrap();
    assert!(pipeline.specs(&Default::default()).is_empty());
    let pipeline = PipelineBuilder::default().built_ins(tools()).allowlists(everything()).build().unwrap();
    assert_eq!(pipeline.specs(&Default::default()).len(), 6);
}
