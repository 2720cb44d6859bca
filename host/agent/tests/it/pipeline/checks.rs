//! Checks before a call runs.

use std::sync::Arc;

use fumehood_agent::agent::is_streamed;
use fumehood_agent::allowlist::{Allowlists, ChannelContext, DefaultAllowlist, EnvelopeKey, Skill};
use fumehood_agent::execution::{Status, ToolExecution};
use fumehood_agent::executor::ToolExecutor as _;
use fumehood_agent::pipeline::{PipelineBuilder, PipelineError};
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltIns};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallResult;
use fumehood_core::record::{Record, RecordKind};
use fumehood_core::tool::{Changes, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall};
use serde_json::json;

use super::stage::{Stage, Text, stage, stage_of, tools};

const ADD: &str = r#"{"a": 1, "b": 2}"#;

/// A provider of another kind with built-in tools.
struct OtherProvider(ProviderKind, Arc<BuiltIns>);

impl ToolProvider for OtherProvider {
    fn kind(&self) -> ProviderKind {
        self.0
    }
    fn tools(&self) -> Vec<Arc<Tool>> {
        self.1.tools()
    }
    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.1.find(name)
    }
    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        self.1.call(call, context)
    }
    fn changes(&self) -> Changes {
        self.1.changes()
    }
}

/// Returns a tool that always answers `text`.
fn tool_answering(name: &str, text: &'static str) -> Arc<BuiltIns> {
    let tools = BuiltIns::default();
    let run = move |_: super::stage::Nothing, _: CallContext| async move { Ok::<_, BuiltInError>(text) };
    tools.register(BuiltIn::new(name, "Says where it is.", run).unwrap()).unwrap();
    Arc::new(tools)
}

#[tokio::test]
async fn registries_are_asked_in_order_and_the_first_hit_wins() {
    let add = |builder: PipelineBuilder| {
        builder
            .provider(Arc::new(OtherProvider(ProviderKind::Mcp, tool_answering("where", "mcp"))))
            .provider(Arc::new(OtherProvider(ProviderKind::Component, tool_answering("where", "component"))))
            .provider(Arc::new(OtherProvider(ProviderKind::Mcp, tool_answering("only_mcp", "mcp"))))
    };
    let stage = stage(add);
    assert_eq!(stage.call("where", "{}").await.result.text().as_deref(), Some("component"));
    assert_eq!(stage.call("only_mcp", "{}").await.result.text().as_deref(), Some("mcp"));
    let names: Vec<_> = stage.pipeline.specs(&stage.scope).into_iter().map(|spec| spec.name).collect();
    assert_eq!(names.iter().filter(|name| *name == "where").count(), 1);
}

#[tokio::test]
async fn a_tool_is_called_by_what_models_make_of_its_name() {
    fn message(ran: ToolExecution) -> String {
        ran.result.error().unwrap().to_string()
    }

    let only = Allowlists { default: DefaultAllowlist::Only(["add".to_owned()].into()), ..Allowlists::default() };
    let stage = stage_of(tools(), |builder| builder.allowlists(only));
    for name in ["functions.add", "functions.add:0", "add:3", "default_api.add"] {
        let ran = stage.call(name, ADD).await;
        assert_eq!((ran.result.text().as_deref(), ran.call.name.as_str()), (Some("3"), "add"), "{name}");
    }
    let started = stage.recorder.of_kind(RecordKind::ToolStarted).remove(0);
    assert_eq!((started.tool.as_deref(), &started.body["called_as"]), (Some("add"), &json!("functions.add")));
    // Nothing tells whether there is a tool that may not be called.
    let [there, missing] = ["functions.echo", "functions.nothing"].map(|name| stage.call(name, "{}"));
    let there = message(there.await);
    let missing = message(missing.await);
    assert_eq!(there.replace("echo", "nothing"), missing);
}

#[tokio::test]
async fn a_miss_is_a_structured_failure() {
    let stage = stage(|builder| builder);
    let execution = stage.call("nope", "{}").await;
    assert_eq!(execution.status, Status::RejectedNotFound);
    assert_eq!(execution.error_message(), "[error: tool 'nope' not found in registry]");
    assert_eq!(execution.error().unwrap().kind, ErrorKind::UnknownTool);
    assert_eq!(stage.recorder.kinds(), [RecordKind::ToolRejected]);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_a_structured_failure() {
    let execution = stage(|builder| builder).call("add", r#"{"a": "1", "b": 2}"#).await;
    assert_eq!(execution.status, Status::RejectedSchema);
    assert!(execution.error_message().contains("/a: expected an integer"), "{}", execution.error_message());
}

#[tokio::test]
async fn all_missing_parameters_are_listed() {
    let execution = stage(|builder| builder).call("add", "{}").await;
    assert!(execution.error_message().contains("Missing required parameters: a, b"), "{}", execution.error_message());
    assert!(execution.error_message().contains("arguments did not match schema"));
}

#[tokio::test]
async fn nothing_is_coerced_and_nothing_undeclared_passes() {
    let stage = stage(|builder| builder);
    for arguments in [r#"{"a": "1", "b": 2}"#, r#"{"a": 1.5, "b": 2}"#, r#"{"a": 1, "b": 2, "c": 3}"#] {
        assert_eq!(stage.call("add", arguments).await.status, Status::RejectedSchema, "{arguments}");
    }
    let rejected = stage.recorder.of_kind(RecordKind::ToolRejected);
    assert_eq!(rejected[0].body["arguments"], json!({"a": "1", "b": 2}));
    assert_eq!(rejected[0].body["status"], "rejected_schema");
    assert!(is_streamed(&rejected[0]));
    assert!(stage.recorder.of_kind(RecordKind::ToolStarted).is_empty());
}

#[tokio::test]
async fn repairs_are_recorded_and_reach_the_tool() {
    let arguments = r#"{"a": 1, "b": 2, "toolCallId": "secret"}"#;
    let lenient = stage(|builder| builder);
    let execution = lenient.call("add", arguments).await;
    assert_eq!(execution.status, Status::Ok);
    let started = &lenient.recorder.of_kind(RecordKind::ToolStarted)[0].body;
    assert_eq!(started["repairs"], json!([{"pointer": "/toolCallId", "kind": "dropped_injected"}]));
    assert_eq!(started["arguments"], json!({"a": 1, "b": 2}));
    let strict = stage(|builder| builder.repairs(None));
    assert_eq!(strict.call("add", arguments).await.status, Status::RejectedSchema);
}

#[tokio::test]
async fn a_string_is_at_most_10240_bytes_wherever_it_stands() {
    async fn check(stage: &Stage, text: String, status: Status) {
        let execution = stage.call("echo", &json!({"text": text}).to_string()).await;
        assert_eq!(execution.status, status);
    }

    let stage = stage(|builder| builder);
    check(&stage, "a".repeat(10_240), Status::Ok).await;
    check(&stage, "a".repeat(10_241), Status::RejectedSchema).await;
    check(&stage, "ä".repeat(5_121), Status::RejectedSchema).await;
}

#[tokio::test]
async fn arguments_that_are_not_json_are_rejected_even_if_nothing_is_required() {
    let stage = stage(|builder| builder);
    for arguments in ["", " ", "{", "nonsense", "[]", "null", "{} {}"] {
        assert_eq!(stage.call("fail", arguments).await.status, Status::RejectedSchema, "{arguments:?}");
    }
}

#[tokio::test]
async fn the_actor_is_asked_for_after_the_schema_and_before_the_tool() {
    let tools = BuiltIns::default();
    let run =
        |_: Text, call: CallContext| async move { Ok::<_, BuiltInError>(call.actor.as_deref().map(str::to_owned)) };
    let tool = BuiltIn::new("whoami", "Says who.", run).unwrap();
    tools.register(tool.with_authorize(|actor, _| actor.is_some())).unwrap();
    let mut stage = stage_of(Arc::new(tools), |builder| builder);
    assert_eq!(stage.call("whoami", "{}").await.status, Status::RejectedSchema);
    let refused = stage.call("whoami", r#"{"text": ""}"#).await;
    assert_eq!(refused.status, Status::RejectedUnauthorized);
    assert_eq!(refused.error_message(), "[error: not authorized to call tool 'whoami']");
    stage.scope.actor = Some(Arc::from("ann"));
    let execution = stage.call("whoami", r#"{"text": ""}"#).await;
    assert_eq!(execution.result.text().as_deref(), Some("ann"));
}

#[tokio::test]
async fn the_actor_comes_from_the_host_and_is_not_shown_to_the_model() {
    let tools = BuiltIns::default();
    let run =
        |_: Text, call: CallContext| async move { Ok::<_, BuiltInError>(call.actor.as_deref().map(str::to_owned)) };
    tools.register(BuiltIn::new("whoami", "Says who.", run).unwrap()).unwrap();
    let mut stage = stage_of(Arc::new(tools), |builder| builder);
    assert_eq!(stage.call("whoami", r#"{"text": "ann"}"#).await.result.text().as_deref(), Some("null"));
    stage.scope.actor = Some(Arc::from("ann"));
    assert_eq!(stage.call("whoami", r#"{"text": "bob"}"#).await.result.text().as_deref(), Some("ann"));
    assert_eq!(stage.call("whoami", r#"{"text": "", "actor": "bob"}"#).await.status, Status::RejectedSchema);
    assert!(!serde_json::to_string(&stage.pipeline.specs(&stage.scope)).unwrap().contains("actor"));
}

fn skilled() -> Stage {
    let lists = Allowlists {
        skills: [
            ("math".to_owned(), Skill::new().component_tool("add").component_tool("divide")),
            ("talk".to_owned(), Skill::new().component_tool("echo")),
        ]
        .into(),
        key: EnvelopeKey::new([3; 32]).ok(),
        ..Allowlists::default()
    };
    let mut stage = stage(|builder| builder.allowlists(lists));
    stage.scope.skill = Some(Arc::from("math"));
    stage
}

#[tokio::test]
async fn a_tool_of_another_skill_is_refused_and_invisible() {
    let stage = skilled();
    let execution = stage.call("echo", r#"{"text": "x"}"#).await;
    assert_eq!(execution.status, Status::RejectedAllowlist);
    assert_eq!(execution.error_message(), "Tool 'echo' is not allowed for skill 'math'. Allowed: [add, divide]");
    let names: Vec<_> = stage.pipeline.specs(&stage.scope).into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["add", "divide"]);
}

#[tokio::test]
async fn no_other_name_is_in_the_refusal_or_the_records() {
    let stage = skilled();
    let execution = stage.call("echo", "{}").await;
    for hidden in ["panic", "stop", "fail"] {
        assert!(!execution.error_message().contains(hidden));
        assert!(!stage.recorder.text().contains(&format!("\"{hidden}\"")));
    }
}

#[tokio::test]
async fn nothing_in_the_call_can_widen_the_list() {
    let stage = skilled();
    for name in ["echo", "ECHO", "echo ", "add\u{200b}", "math/echo", "\u{0435}cho"] {
        assert!(stage.call(name, r#"{"text": "allowed: [echo]", "skill": "talk"}"#).await.has_error(), "{name}");
    }
}

#[tokio::test]
async fn the_envelope_is_enforced_when_the_call_is_made() {
    let lists = Allowlists { key: EnvelopeKey::new([3; 32]).ok(), ..Allowlists::default() };
    let envelope = lists
        .seal("support", ChannelContext { tools: Some(["add".to_owned()].into()), ..ChannelContext::default() })
        .unwrap();
    let mut stage = stage(|builder| builder.allowlists(lists));
    assert_eq!(stage.call("add", ADD).await.status, Status::RejectedAllowlist);
    stage.scope.envelope = Some(Arc::from(envelope.as_str()));
    assert_eq!(stage.call("add", ADD).await.status, Status::Ok);
    let refused = stage.call("echo", r#"{"text": "x"}"#).await;
    assert_eq!(refused.status, Status::RejectedAllowlist);
    assert_eq!(refused.error_message(), "[error: tool 'echo' is not permitted on this channel]");
    stage.scope.envelope = Some(Arc::from(format!("x{envelope}").as_str()));
    assert_eq!(stage.call("add", ADD).await.status, Status::RejectedAllowlist);
    assert!(stage.pipeline.specs(&stage.scope).is_empty());
}

#[tokio::test]
async fn refusals_that_nobody_else_needs_to_know_are_not_streamed() {
    let stage = skilled();
    stage.call("echo", "{}").await;
    stage.call("nope", "{}").await;
    let refused = stage.recorder.of_kind(RecordKind::ToolRejected);
    assert_eq!(refused.len(), 2);
    assert!(!refused.iter().any(is_streamed));
    stage.call("add", ADD).await;
    let records = stage.recorder.0.lock().unwrap();
    let streamed: Vec<_> = records.iter().filter(|record| is_streamed(record)).collect();
    assert_eq!(
        streamed.iter().map(|record| record.kind).collect::<Vec<_>>(),
        [RecordKind::ToolStarted, RecordKind::ToolFinished]
    );
    assert_eq!(streamed[1].status.as_deref(), Some("ok"));
}

#[test]
fn a_skill_that_names_what_is_not_there_is_refused() {
    let lists =
        Allowlists { skills: [("s".to_owned(), Skill::new().component_tool("ad"))].into(), ..Allowlists::default() };
    let error = PipelineBuilder::default().built_ins(tools()).allowlists(lists).build().unwrap_err();
    assert!(matches!(&error, PipelineError::UnknownTool { skill, tool } if skill == "s" && tool == "ad"), "{error}");
}

#[tokio::test]
async fn records_say_where_a_call_ran() {
    let add = |builder: PipelineBuilder| {
        builder.provider(Arc::new(OtherProvider(ProviderKind::Component, tool_answering("where", "there"))))
    };
    let stage = stage(add);
    stage.call("add", ADD).await;
    stage.call("where", "{}").await;
    let families: Vec<_> =
        stage.recorder.of_kind(RecordKind::ToolStarted).iter().map(|record| record.body["family"].clone()).collect();
    assert_eq!(families, ["built_in", "component"]);
}

#[tokio::test]
async fn a_channel_is_told_in_its_own_words() {
    let lists = Allowlists { key: EnvelopeKey::new([3; 32]).ok(), ..Allowlists::default() };
    let envelope = lists
        .seal("support", ChannelContext { tools: Some(["panic".to_owned()].into()), ..ChannelContext::default() })
        .unwrap();
    let mut stage = stage(|builder| builder.allowlists(lists));
    stage.scope.envelope = Some(Arc::from(envelope.as_str()));
    let message = stage.call("panic", "{}").await.error_message().to_owned();
    assert!(message.starts_with("[error: tool 'panic' threw an exception: "), "{message}");
    let words = "[error: tool 'nope' is not permitted on this channel]";
    assert_eq!(stage.call("nope", "{}").await.error_message(), words);
}

/// Returns everything that a model, a person and a program can see of a refusal, without the name.
fn visible(execution: &ToolExecution, records: &[Record]) -> String {
    let error = serde_json::to_string(execution.error().unwrap()).unwrap();
    let record = records.last().unwrap();
    let text = format!("{:?} {error} {:?} {} {}", execution.status, record.status, record.kind, record.body["error"]);
    text.replace(execution.name(), "NAME")
}

#[tokio::test]
async fn unreachable_and_missing_tools_are_refused_alike() {
    let lists = Allowlists { key: EnvelopeKey::new([3; 32]).ok(), ..Allowlists::default() };
    let envelope = lists
        .seal("support", ChannelContext { tools: Some(["add".to_owned()].into()), ..ChannelContext::default() })
        .unwrap();
    let mut channel = stage(|builder| builder.allowlists(lists));
    channel.scope.envelope = Some(Arc::from(envelope.as_str()));
    let only = Allowlists { default: DefaultAllowlist::Only(["add".to_owned()].into()), ..Allowlists::default() };
    let nothing = Allowlists::default();
    let only = stage(|builder| builder.allowlists(only));
    let nothing = stage(|builder| builder.allowlists(nothing));
    for stage in [channel, only, nothing, skilled()] {
        let hidden = stage.call("echo", "{}").await;
        let hidden = visible(&hidden, &stage.recorder.of_kind(RecordKind::ToolRejected));
        let missing = stage.call("nope", "{}").await;
        assert_eq!(visible(&missing, &stage.recorder.of_kind(RecordKind::ToolRejected)), hidden);
        assert!(hidden.starts_with("RejectedAllowlist"), "{hidden}");
    }
}

#[tokio::test]
async fn suggests_names_that_may_be_called() {
    async fn hint(stage: &Stage, name: &str) -> Option<String> {
        let execution = stage.call(name, "{}").await;
        execution.error().unwrap().hint.as_ref().map(|hint| hint.to_string())
    }

    let everything = stage(|builder| builder);
    assert_eq!(hint(&everything, "ehco").await.as_deref(), Some("did you mean `echo`?"));
    assert_eq!(hint(&everything, "nope").await, None);
    // Only names that may be called are suggested.
    let skilled = skilled();
    assert_eq!(hint(&skilled, "ehco").await, None);
    assert_eq!(hint(&skilled, "divid").await.as_deref(), Some("did you mean `divide`?"));
}

#[tokio::test]
async fn an_execution_tells_what_was_asked_and_what_became_of_it() {
    let stage = stage(|builder| builder);
    let good = stage.call("add", ADD).await;
    let bad = stage.call("fail", "{}").await;
    assert_ne!(good.id, bad.id);
    assert_eq!((good.name(), good.args(), good.error_message()), ("add", ADD, ""));
    assert!(good.value().is_some() && !good.has_error() && good.started_at <= good.completed_at);
    assert!(bad.value().is_none() && bad.has_error() && !bad.is_blocked());
    assert_eq!(bad.error_message(), "it failed");
}
