//! Results: hooks, truncation, retries, and failures of every kind.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use fumehood_agent::execution::Status;
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltIns, ToolPolicy};
use fumehood_agent::retry::RetryPolicy;
use fumehood_core::call::CallContext;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::policy::call::{Decision, PolicyFn};
use fumehood_core::record::RecordKind;
use fumehood_core::tool::ValidatedCall;
use fumehood_core::tool::definition::Annotations;
use serde_json::json;

use super::stage::{Nothing, after, before, stage, stage_of, tools};

const ADD: &str = r#"{"a": 1, "b": 2}"#;
const SECRET: &str = r#"{"text": "hunter2"}"#;

#[tokio::test]
async fn a_success_has_the_id_of_its_call_and_says_what_it_is() {
    let execution = stage(|builder| builder).call("echo", r#"{"text": "hällo"}"#).await;
    let shape = serde_json::to_value(&execution.result).unwrap();
    assert_eq!((&shape["id"], &shape["status"]), (&json!("c0"), &json!("ok")));
    assert_eq!(shape["metadata"]["bytes"], 6);
    assert_eq!(shape["metadata"]["truncated"], false);
    assert_eq!(shape["metadata"]["mime"], "text/plain");
}

#[tokio::test]
async fn a_failure_has_the_same_shape() {
    let execution = stage(|builder| builder).call("divide", r#"{"a": 1, "b": 0}"#).await;
    let shape = serde_json::to_value(&execution.result).unwrap();
    assert_eq!((&shape["id"], &shape["status"]), (&json!("c0"), &json!("error")));
    assert_eq!(shape["error"]["message"], "Division by zero");
}

#[tokio::test]
async fn a_panic_is_a_failure_with_the_name_of_the_tool() {
    let execution = stage(|builder| builder).call("panic", "{}").await;
    assert_eq!((execution.status, execution.error().unwrap().kind), (Status::HandlerError, ErrorKind::Trap));
    let message = execution.error_message();
    assert!(message.starts_with("Exception during execution of tool 'panic': "), "{message}");
    assert!(message.contains("broken on purpose"));
}

#[tokio::test]
async fn the_order_of_a_call() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let first = Arc::clone(&order);
    let last = Arc::clone(&order);
    let ruled = Arc::clone(&order);
    let before = before("before", move |_| {
        first.lock().unwrap().push("before");
        Decision::Allow
    });
    let after = after("after", move |_, _| {
        last.lock().unwrap().push("after");
        Decision::Allow
    });
    let rule = PolicyFn::new("rule", move |_: &ValidatedCall, _: &CallContext| {
        ruled.lock().unwrap().push("rule");
        Decision::Allow
    });
    let stage = stage(|builder| builder.rule(Arc::new(rule)).call_hooks([before, after].into_iter().collect()));
    stage.call("add", ADD).await;
    assert_eq!(*order.lock().unwrap(), ["rule", "before", "after"]);
    let kinds = [RecordKind::Verdict, RecordKind::ToolStarted, RecordKind::ToolFinished, RecordKind::ToolResult];
    assert_eq!(stage.recorder.kinds(), kinds);
}

#[tokio::test]
async fn a_hook_transforms_a_result_before_anybody_sees_it() {
    let redact = after("redact", |_, _| Decision::Rewrite { to: Ok(vec![Content::text("[redacted]")]), note: None });
    let stage = stage(|builder| builder.call_hooks([redact].into_iter().collect()));
    assert_eq!(stage.call("echo", SECRET).await.result.text().as_deref(), Some("[redacted]"));
    assert!(!stage.recorder.of_kind(RecordKind::ToolResult)[0].body.to_string().contains("hunter2"));
    assert!(!stage.recorder.of_kind(RecordKind::ToolFinished)[0].body.to_string().contains("hunter2"));
}

#[tokio::test]
async fn a_hook_rejects_a_result_and_the_model_never_sees_it() {
    let reject = after("secrets", |_, outcome| {
        assert!(outcome.is_ok());
        Decision::deny("contains secrets")
    });
    let execution = stage(|builder| builder.call_hooks([reject].into_iter().collect())).call("echo", SECRET).await;
    assert_eq!(execution.error().unwrap().kind, ErrorKind::Denied);
    assert!(execution.error_message().contains("contains secrets"));
    assert!(!serde_json::to_string(&execution.result).unwrap().contains("hunter2"));
}

#[tokio::test]
async fn a_hook_that_panics_lets_nothing_through() {
    let broken = after("broken", |_, outcome| {
        assert!(outcome.is_err(), "broken on purpose");
        Decision::Allow
    });
    let execution = stage(|builder| builder.call_hooks([broken].into_iter().collect())).call("echo", SECRET).await;
    assert!(execution.has_error());
    assert!(!serde_json::to_string(&execution.result).unwrap().contains("hunter2"));
}

/// Returns a tool that fails a number of times and then succeeds, and the counter of its calls.
fn flaky(failures: u32, annotations: Annotations, policy: ToolPolicy) -> (Arc<BuiltIns>, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&calls);
    let run = move |_: Nothing, _: CallContext| {
        let made = counts.fetch_add(1, Ordering::Relaxed);
        async move {
            if made < failures {
                return Err(BuiltInError::from(CallError::new(ErrorKind::Unavailable, "down")));
            }
            Ok("up")
        }
    };
    let tools = BuiltIns::default();
    let tool = BuiltIn::new("flaky", "Fails.", run).unwrap().with_annotations(annotations).with_policy(policy);
    tools.register(tool).unwrap();
    (Arc::new(tools), calls)
}

fn retries(max_retries: u32) -> ToolPolicy {
    ToolPolicy { retry: Some(RetryPolicy::new(max_retries)), ..ToolPolicy::default() }
}

async fn check_attempts(annotations: Annotations, expected: u32) {
    let (tools, calls) = flaky(2, annotations, retries(2));
    let execution = stage_of(tools, |builder| builder).call("flaky", "{}").await;
    assert_eq!(calls.load(Ordering::Relaxed), expected);
    assert_eq!(execution.has_error(), expected == 1);
}

#[tokio::test]
async fn only_idempotent_tools_are_tried_again() {
    check_attempts(Annotations { idempotent: Some(true), ..Annotations::default() }, 3).await;
    check_attempts(Annotations::default(), 1).await;
}

#[tokio::test]
async fn the_host_goes_before_the_tool() {
    let annotations = Annotations { idempotent: Some(true), ..Annotations::default() };
    let (tools, calls) = flaky(1, annotations, retries(2));
    let stage = stage_of(tools, |builder| builder.tool_policy("flaky", retries(0)));
    assert!(stage.call("flaky", "{}").await.has_error());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn failures_of_every_sort_come_back_as_results() {
    let (flaky, _) = flaky(9, Annotations::default(), ToolPolicy::default());
    let stage = stage_of(tools(), |builder| builder);
    let down = stage_of(flaky, |builder| builder).call("flaky", "{}").await;
    assert_eq!(down.error().unwrap().kind, ErrorKind::Unavailable);
    for (name, arguments) in [("fail", "{}"), ("panic", "{}"), ("nope", "{}"), ("add", "{}")] {
        let shape = serde_json::to_value(stage.call(name, arguments).await.result).unwrap();
        assert_eq!(shape["status"], "error");
    }
}

#[tokio::test]
async fn the_model_sees_4096_bytes() {
    let text = "x".repeat(5_000);
    let execution = stage(|builder| builder).call("echo", &json!({"text": text}).to_string()).await;
    let shown = execution.result.text().unwrap();
    assert_eq!(shown.len(), 4_096);
    assert!(shown.ends_with("[truncated]"));
    assert_eq!(execution.result.metadata.bytes, 5_000);
}

#[tokio::test]
async fn a_call_that_overruns_is_marked_and_its_result_used() {
    let policy = ToolPolicy { expected_duration: Some(std::time::Duration::ZERO), ..ToolPolicy::default() };
    let stage = stage(|builder| builder.tool_policy("add", policy));
    assert_eq!(stage.call("add", ADD).await.result.text().as_deref(), Some("3"));
    assert_eq!(stage.recorder.of_kind(RecordKind::ToolFinished)[0].body["overran"], true);
    stage.call("echo", SECRET).await;
    assert_eq!(stage.recorder.of_kind(RecordKind::ToolFinished)[1].body["overran"], false);
}
