//! Programs of code mode: their calls take the same path as those of the model.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fumehood_agent::CallAllowance;
use fumehood_agent::allowlist::{Allowlists, DefaultAllowlist, Skill};
use fumehood_agent::code::{CodeMode, ProgramLimits};
use fumehood_agent::execution::{Status, ToolExecution};
use fumehood_agent::executor::{BatchEnd, Scope, ToolExecutor as _};
use fumehood_agent::pipeline::{PipelineBuilder, PipelineError};
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltIns, ToolPolicy};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::policy::call::{Answer, Approver, Decision, PolicyFn, Question};
use fumehood_core::record::{Record, RecordKind};
use fumehood_core::tool::ValidatedCall;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::stage::{Nothing, Stage, after, before, intent, stage, stage_of};
use crate::line_interpreter::Lines;

fn code_stage(mode: CodeMode, with: impl FnOnce(PipelineBuilder) -> PipelineBuilder) -> Stage {
    stage(|builder| with(builder.code(Arc::new(Lines::default()), mode)))
}

fn beside(with: impl FnOnce(PipelineBuilder) -> PipelineBuilder) -> Stage {
    code_stage(CodeMode::beside_direct_calls(), with)
}

impl Stage {
    async fn program(&self, code: &str) -> ToolExecution {
        self.call("run_code", &json!({"code": code}).to_string()).await
    }

    async fn values(&self, code: &str) -> Value {
        let execution = self.program(code).await;
        let text = execution.result.text().unwrap_or_else(|| panic!("{:?}", execution.result)).into_owned();
        serde_json::from_str::<Value>(&text).unwrap()["result"].take()
    }
}

#[tokio::test]
async fn calls_of_a_program_are_calls() {
    let stage = beside(|builder| builder);
    let values = stage.values(r#"host__add {"a": 1, "b": 2}"#).await;
    assert_eq!(values, json!([3]));
    let records = stage.recorder.0.lock().unwrap().clone();
    let kinds: Vec<_> = records.iter().map(|record| (record.kind, record.tool.as_deref().unwrap())).collect();
    let expected = [
        (RecordKind::ToolStarted, "run_code"),
        (RecordKind::ToolStarted, "add"),
        (RecordKind::ToolFinished, "add"),
        (RecordKind::ToolResult, "add"),
        (RecordKind::ToolFinished, "run_code"),
        (RecordKind::ToolResult, "run_code"),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(records[1].parent.as_deref(), Some(records[0].id.as_str()));
    assert_eq!(records[1].body["model_call"], "c0.1");
    assert_eq!(records[1].body["arguments"], json!({"a": 1, "b": 2}));
    assert_eq!(records[4].parent.as_deref(), Some(records[0].id.as_str()));
}

#[tokio::test]
async fn calls_of_one_paragraph_run_at_once_up_to_the_limit() {
    let most = Arc::new(AtomicUsize::new(0));
    let running = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let slow = move |_: Nothing, _: CallContext| {
        let running = Arc::clone(&running);
        let seen = Arc::clone(&seen);
        async move {
            seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, BuiltInError>(())
        }
    };
    let tools = BuiltIns::default();
    tools.register(BuiltIn::new("slow", "Takes time.", slow).unwrap()).unwrap();
    let limits = ProgramLimits { concurrency: NonZeroUsize::new(3).unwrap(), ..ProgramLimits::default() };
    let mode = CodeMode::only().limits(limits);
    let stage = stage_of(Arc::new(tools), |builder| builder.code(Arc::new(Lines::default()), mode));
    assert_eq!(stage.values(&"host__slow\n".repeat(20)).await, json!(vec![Value::Null; 20]));
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn results_reach_the_program_as_they_are_and_the_model_sanitized() {
    let stage = beside(|builder| builder);
    let long = format!("{}<system>", "x".repeat(10_000));
    let values = stage.program(&format!("host__echo {}", json!({"text": long}))).await;
    let text = values.result.text().unwrap().into_owned();
    assert!(text.contains("&lt;system&gt;") && text.len() > 10_000, "{text}");
    assert_eq!(stage.values(r#"host__echo {"text": "a\"b"}"#).await, json!(["a\"b"]));
}

#[tokio::test]
async fn a_program_cannot_run_another_one() {
    let stage = beside(|builder| builder);
    for name in ["run_code", "search_tools", "host__run_code"] {
        let values = stage.values(&format!(r#"{name} {{"code": "", "query": ""}}"#)).await;
        assert_eq!(values[0][0], "unknown_tool", "{name}: {values}");
    }
}

#[tokio::test]
async fn names_of_code_mode_are_taken() {
    let tools = BuiltIns::default();
    let run = |_: Nothing, _: CallContext| async move { Ok::<_, BuiltInError>(()) };
    tools.register(BuiltIn::new("run_code", "Mine.", run).unwrap()).unwrap();
    let builder = PipelineBuilder::default().built_ins(Arc::new(tools));
    let built = builder.code(Arc::new(Lines::default()), CodeMode::only()).build();
    assert!(matches!(built, Err(PipelineError::CodeToolName("run_code"))), "{built:?}");
}

#[tokio::test]
async fn only_programs_call_tools_where_that_is_set() {
    let stage = code_stage(CodeMode::only(), |builder| builder);
    let names: Vec<_> = stage.pipeline.specs(&stage.scope).into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["run_code", "search_tools"]);
    let refused = stage.call("add", r#"{"a": 1, "b": 2}"#).await;
    assert_eq!(refused.status, Status::RejectedAllowlist);
    assert!(refused.error_message().contains("in a program with `run_code`"), "{}", refused.error_message());
    assert_eq!(stage.values(r#"host__add {"a": 1, "b": 2}"#).await, json!([3]));
}

#[tokio::test]
async fn descriptions_declare_the_tools_of_the_scope() {
    fn description(stage: &Stage) -> String {
        let mut specs = stage.pipeline.specs(&stage.scope).into_iter();
        specs.find(|spec| spec.name == "run_code").unwrap().description
    }

    fn set_skill(stage: &mut Stage) {
        stage.scope = Scope { skill: Some(Arc::from("sums")), ..stage.scope.clone() };
    }

    let lists = Allowlists {
        default: DefaultAllowlist::Everything,
        skills: [("sums".to_owned(), Skill::new().component_tool("add"))].into(),
        ..Allowlists::default()
    };
    let mut stage = beside(|builder| builder.allowlists(lists));
    let all = description(&stage);
    assert!(all.contains("/** Adds. */ add(args: { /** The first number. */ a: number"), "{all}");
    assert!(all.contains("divide("), "{all}");
    set_skill(&mut stage);
    let some = description(&stage);
    assert!(some.contains("add(") && !some.contains("divide("), "{some}");
    assert_eq!(stage.values("host__divide").await[0][0], "not_allowed");
    let found = stage.call("search_tools", r#"{"query": "adds numbers"}"#).await.result;
    assert!(found.text().unwrap().contains("add("), "{found:?}");
    let found = stage.call("search_tools", r#"{"query": "divide"}"#).await.result;
    assert!(found.text().unwrap().starts_with("No tool fits"), "{found:?}");
}

#[tokio::test]
async fn exceptions_have_their_line_and_what_was_printed() {
    let stage = beside(|builder| builder);
    let failed = stage.program("throw no luck").await;
    assert_eq!(failed.status, Status::HandlerError);
    assert_eq!(failed.error_message(), "Error: no luck (line 2)\nconsole:\nwarn: printed");
    assert_eq!(failed.result.metadata.fuel_used, 5);
}

#[tokio::test]
async fn calls_that_are_not_awaited_are_stopped_and_named() {
    let stage = beside(|builder| builder);
    let ended = stage.program("host__add {\"a\": 1, \"b\": 2}\nend").await;
    let text = ended.result.text().unwrap().into_owned();
    assert!(text.contains("the program ended first: 1; use `await`"), "{text}");
    assert_eq!(stage.recorder.of_kind(RecordKind::ToolStarted).len(), 1);
}

#[tokio::test]
async fn a_stop_within_a_program_ends_the_run() {
    let stage = beside(|builder| builder);
    let code = json!({"code": "host__add {\"a\": 1, \"b\": 2}\n\nhost__stop\n\nhost__add {\"a\": 1, \"b\": 2}"});
    let outcome = stage.batch(&[("run_code", &code.to_string())]).await;
    assert_eq!(outcome.ended, Some(BatchEnd::Stop { reason: "enough".to_owned() }));
    let started = stage.recorder.of_kind(RecordKind::ToolStarted);
    assert_eq!(started.len(), 3, "the call after it is not made");
}

#[tokio::test]
async fn dropping_the_run_stops_the_calls_of_its_program() {
    let waits = |_: Nothing, _: CallContext| async move {
        std::future::pending::<()>().await;
        Ok::<_, BuiltInError>(())
    };
    let tools = BuiltIns::default();
    tools.register(BuiltIn::new("forever", "Waits.", waits).unwrap()).unwrap();
    let stage = stage_of(Arc::new(tools), |builder| builder.code(Arc::new(Lines::default()), CodeMode::only()));
    let call = intent("c", "run_code", r#"{"code": "host__forever\nhost__forever"}"#);
    let running = stage.pipeline.execute(vec![call], &stage.scope);
    assert!(tokio::time::timeout(Duration::from_millis(50), running).await.is_err());
    let finished = stage.recorder.of_kind(RecordKind::ToolFinished);
    let ended: Vec<_> = finished.iter().map(|record| record.status.as_deref().unwrap()).collect();
    assert_eq!(ended, ["cancelled"; 3]);
}

#[tokio::test]
async fn limits_of_a_program_hold() {
    async fn check(limits: ProgramLimits, code: &str, kind: &str, part: &str) {
        let stage = code_stage(CodeMode::only().limits(limits), |builder| builder);
        let values = stage.values(code).await;
        let last = values.as_array().unwrap().last().unwrap().clone();
        assert!(last[0] == kind && last[1].as_str().unwrap().contains(part), "{values}");
    }

    let add = r#"host__add {"a": 1, "b": 2}"#;
    let default = ProgramLimits::default();
    let twice = format!("{add}\n\n{add}");
    check(ProgramLimits { calls: 1, ..default }, &twice, "quota", "all of its 1 calls").await;
    check(ProgramLimits { argument_bytes: 20, ..default }, &twice, "quota", "20 B together").await;
    check(ProgramLimits { result_bytes: 1, ..default }, &twice, "quota", "1 B together").await;
    check(ProgramLimits { call_fuel: 0, ..default }, &twice, "quota", "0 units of fuel").await;

    let stage = code_stage(CodeMode::only().limits(ProgramLimits { code: 10, ..default }), |builder| builder);
    assert!(stage.program(add).await.error_message().contains("the maximum is 10 B"));
}

#[tokio::test]
async fn a_flood_of_refused_calls_ends_the_program() {
    let limits = ProgramLimits { calls: 5, ..ProgramLimits::default() };
    let stage = code_stage(CodeMode::only().limits(limits), |builder| builder);
    let flood = stage.program(&"nothing\n".repeat(2000)).await;
    assert!(flood.error_message().contains("keeps making calls"), "{}", flood.error_message());
    let long = stage.program(&"x".repeat(70_000)).await;
    assert!(long.error_message().contains("64.0 KiB"), "{}", long.error_message());
}

#[tokio::test]
async fn budgets_of_the_session_count_calls_of_programs() {
    let mut stage = beside(|builder| builder);
    stage.scope.allowance = Some(Arc::new(CallAllowance::new(2, u64::MAX)));
    let add = r#"host__add {"a": 1, "b": 2}"#;
    let code = json!({"code": format!("{add}\n{add}\n{add}")}).to_string();
    let outcome = stage.batch(&[("run_code", &code), ("run_code", &code)]).await;
    assert_eq!(outcome.program_calls, 2);
    let texts: Vec<_> = outcome.executions.iter().map(|it| it.result.text().unwrap().into_owned()).collect();
    assert_eq!(texts.concat().matches("budget_exhausted").count(), 4, "{texts:?}");
}

/// An approver that answers after a while.
struct Slow(Answer);

impl Approver for Slow {
    fn ask<'a>(&'a self, _: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.0.clone()
        })
    }
}

fn asks(tool: &'static str) -> impl Fn(&ValidatedCall, &CallContext) -> Decision<Arguments> + Send + Sync {
    move |call: &ValidatedCall, _: &CallContext| {
        if call.tool().full_name() == tool { Decision::ask("May it?") } else { Decision::Allow }
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_paused_while_a_person_is_asked() {
    let interpreter = Arc::new(Lines::default());
    let pauses = Arc::clone(&interpreter.pauses);
    let stage = stage(|builder| {
        let asking = builder.rule(Arc::new(PolicyFn::new("asks", asks("add")))).approver(Arc::new(Slow(Answer::Allow)));
        asking.code(interpreter, CodeMode::only())
    });
    assert_eq!(stage.values(r#"host__echo {"text": "a"}"#).await, json!(["a"]));
    assert_eq!(pauses.load(Ordering::SeqCst), 0);
    let add = r#"host__add {"a": 1, "b": 2}"#;
    assert_eq!(stage.values(&format!("{add}\n{add}")).await, json!([3, 3]));
    assert_eq!(pauses.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn hooks_and_policies_hold_within_programs() {
    let block = before("block", |call| match call.tool().full_name() {
        "divide" => Decision::deny("not today"),
        _ => Decision::Allow,
    });
    let redact = after("redact", |call, _| match call.tool().full_name() {
        "echo" => Decision::Rewrite { to: Ok(vec![Content::text("[redacted]")]), note: None },
        _ => Decision::Allow,
    });
    let stage = beside(|builder| {
        let builder = builder.call_hooks([block, redact].into_iter().collect());
        builder.tool_policy("add", ToolPolicy { result_bytes: Some(1), ..ToolPolicy::default() })
    });
    let code = "host__divide {\"a\": 1, \"b\": 2}\nhost__echo {\"text\": \"secret\"}\nhost__add {\"a\": 10, \"b\": 2}";
    assert_eq!(
        stage.values(code).await,
        json!([["denied", "denied by the hook `block`: not today"], "[redacted]", 12])
    );
    assert!(!stage.recorder.text().contains("not today\\n") && stage.recorder.text().contains("[redacted]"));
}

/// Conditions under which calls are refused.
fn guarded(builder: PipelineBuilder, allowed: &[&str], denied: &'static str, asked: &'static str) -> PipelineBuilder {
    let only = allowed.iter().map(|&name| name.to_owned()).collect();
    let lists = Allowlists { default: DefaultAllowlist::Only(only), ..Allowlists::default() };
    let deny = move |call: &ValidatedCall, _: &CallContext| {
        if call.tool().full_name() == denied { Decision::deny("never") } else { Decision::Allow }
    };
    let builder = builder.allowlists(lists).rule(Arc::new(PolicyFn::new("denies", deny)));
    builder.rule(Arc::new(PolicyFn::new("asks", asks(asked)))).approver(Arc::new(Slow(Answer::no())))
}

fn any_call() -> impl Strategy<Value = (&'static str, &'static str)> {
    let name = prop::sample::select(vec!["add", "divide", "echo", "fail", "panic", "nope", "run_code", "ADD"]);
    let arguments = prop::sample::select(vec![
        r#"{"a":1,"b":2}"#,
        r#"{"a":1,"b":0}"#,
        r#"{"a":"1","b":2}"#,
        r#"{"text":"x"}"#,
        r#"{"a":1,"b":2,"c":3}"#,
        r#"{"a":1,"a":2,"b":3}"#,
        "{}",
        "[]",
        "nonsense",
        r#"{"code":"","query":""}"#,
    ]);
    (name, arguments)
}

/// Returns what a program gets of a call that was made directly: its value, or the kind of its error.
fn direct_value(execution: &ToolExecution) -> Value {
    match execution.error() {
        Some(error) => json!(error.kind.as_str()),
        None => {
            let text = execution.result.text().unwrap().into_owned();
            json!([serde_json::from_str(&text).unwrap_or(Value::String(text))])
        }
    }
}

proptest! {
    /// Each call of a program ends as if the model had made it directly and leaves the same records, in any order and with
    /// any number at once.
    #[test]
    fn no_program_gets_what_a_direct_call_would_be_refused(
        calls in prop::collection::vec((any_call(), any::<bool>()), 1..12),
        budget in 1_usize..12,
        (denied, asked) in prop::sample::select(vec![("divide", "echo"), ("add", "divide"), ("echo", "add")]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let allowed = ["add", "divide", "echo", "panic"];
        runtime.block_on(async {
            let direct = stage(|builder| guarded(builder, &allowed, denied, asked));
            let mut expected = Vec::new();
            for ((name, arguments), _) in calls.iter().take(budget) {
                expected.push(direct_value(&direct.call(name, arguments).await));
            }
            expected.resize(calls.len(), json!("budget_exhausted"));

            let mode = CodeMode::only();
            let mut program =
                stage(|builder| guarded(builder, &allowed, denied, asked).code(Arc::new(Lines::default()), mode));
            program.scope.allowance = Some(Arc::new(CallAllowance::new(budget as u64, u64::MAX)));
            let line = |((name, arguments), breaks): &((&str, &str), bool)| {
                format!("{name} {arguments}\n{}", if *breaks { "\n" } else { "" })
            };
            let values = program.values(&calls.iter().map(line).collect::<String>()).await;
            let runs = program.recorder.0.lock().unwrap()[0].call.clone();
            // An error is a list of its kind and its message; no tool here returns a list.
            let simple = |value: &Value| value.get(0).cloned().unwrap_or_else(|| json!([value]));
            let values: Vec<_> = values.as_array().unwrap().iter().map(simple).collect();
            prop_assert_eq!(&values, &expected);

            let kinds = |stage: &Stage| {
                let records = stage.recorder.0.lock().unwrap();
                let end = |record: &Record| (record.tool.clone(), record.kind.as_str(), record.status.clone());
                let mut kinds: Vec<_> = records.iter().filter(|record| record.call != runs).map(end).collect();
                kinds.sort();
                kinds
            };
            prop_assert_eq!(kinds(&program), kinds(&direct));
            Ok::<(), TestCaseError>(())
        })?;
    }
}
