//! Hooks of an operator in the sandbox: what they decide, and that hostile ones refuse calls and do nothing else.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood::agent::code::CodeMode;
use fumehood::agent::execution::ToolExecution;
use fumehood::boxed::BoxFuture;
use fumehood::hooks::{ComponentHook, HookError, HookFunction, ToolPatterns};
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::permission::{Environment, KeyValueQuota};
use fumehood::policy::{Answer, Approver, Policies, Policy, Question};
use fumehood::{Call, CallResult, ErrorKind, Grant, Host, Limits, Load, Stack, ToolProvider};
use fumehood_tests::hook;
use serde_json::json;

/// Limits of a hook in these tests: a short deadline, and memory for 100 MiB.
fn limits() -> Limits {
    ComponentHook::default_limits().deadline(Duration::from_millis(300)).memory(128 << 20)
}

fn example(name: &str) -> Vec<u8> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../example-tools/dist");
    std::fs::read(dist.join(format!("{name}.wasm"))).unwrap()
}

/// Returns a host with the calculator and a hook.
async fn host_with(load: Load) -> Host {
    let host = Host::builder().memory_ceiling(limits().memory).build().unwrap();
    host.load(Load::bytes("calculator", example("calculator"))).await.unwrap();
    host.load(load).await.unwrap();
    host
}

fn tools(host: &Host, hook: ComponentHook) -> Arc<dyn ToolProvider> {
    let hooks: Policies = [Arc::new(hook) as Arc<dyn Policy>].into_iter().collect();
    Stack::new().policies(hooks).around([host.clone()])
}

/// Adds 1 and 2 while this program decides on the call with one of its functions.
async fn decided_by(program: &str, function: HookFunction) -> CallResult {
    let host = host_with(Load::bytes("judge", hook(program).unwrap()).limits(limits())).await;
    let tools = tools(&host, host.hook("judge").unwrap().functions([function]));
    let result = tools.dispatch(add()).await;
    host.shutdown(Duration::ZERO).await;
    result
}

fn add() -> Call {
    Call::new("calculator__add", json!({"a": 1, "b": 2}))
}

/// Checks that the call failed with this kind, and that the error names the hook and has this in it.
fn check_refused(result: &CallResult, kind: ErrorKind, part: &str) {
    let error = result.error().unwrap_or_else(|| panic!("it should be refused: {result:?}"));
    let message = error.message.as_str();
    assert!(error.kind == kind && message.contains("`judge`") && message.contains(part), "{error:?}");
}

#[tokio::test]
async fn hostile_hooks_refuse_calls_before_they_run() {
    check_not_run("spin", "did not decide within 300ms").await;
    check_not_run("trap", "crashed").await;
    check_not_run("grow", "needs more than its").await;
    check_not_run("huge", "decision is larger than").await;
    check_not_run("invalid-json", "to invalid ones").await;
    check_not_run("widen", "to invalid ones").await;
}

async fn check_not_run(program: &str, part: &str) {
    let started = Instant::now();
    let result = decided_by(program, HookFunction::Before).await;
    check_refused(&result, ErrorKind::Denied, part);
    // No tool ran.
    assert_eq!(result.metadata.fuel_used, 0, "{program}");
    assert!(started.elapsed() < Duration::from_secs(30), "{program}");
}

#[tokio::test]
async fn hostile_hooks_withhold_results() {
    check_withheld("spin", "did not decide within 300ms").await;
    check_withheld("trap", "crashed").await;
    check_withheld("grow", "needs more than its").await;
    check_withheld("huge", "decision is larger than").await;
    check_withheld("invalid-json", "not JSON").await;
    check_withheld("widen", "to an invalid one").await;
}

async fn check_withheld(program: &str, part: &str) {
    let result = decided_by(program, HookFunction::After).await;
    check_refused(&result, ErrorKind::Denied, part);
    assert!(result.content().is_empty() && result.metadata.fuel_used > 0, "{program}: the tool ran");
}

#[tokio::test]
async fn a_hook_changes_arguments_and_keeps_the_result() {
    let result = decided_by("change", HookFunction::Before).await;
    assert_eq!(result.text().as_deref(), Some(r#"{"result":42}"#));
    // The same program has nothing to say about results.
    let result = decided_by("change", HookFunction::After).await;
    assert_eq!(result.text().as_deref(), Some(r#"{"result":3}"#));
}

#[tokio::test]
async fn a_call_about_which_nobody_can_be_asked_is_refused() {
    check_refused(&decided_by("ask", HookFunction::Before).await, ErrorKind::NeedsApproval, "May it run?");
}

#[tokio::test]
async fn a_hook_authorizes_by_the_actor() {
    let host = host_with(Load::bytes("judge", hook("guests-only").unwrap()).limits(limits())).await;
    let tools = tools(&host, host.hook("judge").unwrap());
    assert!(tools.dispatch(add()).await.is_ok());
    check_refused(&tools.dispatch(add().actor("eve")).await, ErrorKind::Unauthorized, "not you");
}

#[tokio::test]
async fn a_hook_decides_only_on_the_tools_that_it_is_for() {
    let host = host_with(Load::bytes("judge", hook("trap").unwrap()).limits(limits())).await;
    let others = host.hook("judge").unwrap().tools(ToolPatterns::new(["web__*"]).unwrap());
    assert!(tools(&host, others).dispatch(add()).await.is_ok());
    let these = host.hook("judge").unwrap().tools(ToolPatterns::new(["calc*__add"]).unwrap());
    assert!(!tools(&host, these).dispatch(add()).await.is_ok());
}

#[tokio::test]
async fn a_hook_has_no_tools_and_a_tool_is_no_hook() {
    let host = host_with(Load::bytes("judge", hook("ask").unwrap())).await;
    assert!(host.tools().iter().all(|tool| tool.full_name().starts_with("calculator__")));
    let direct = host.call(Call::new("judge__hook_before", "{}")).await;
    assert_eq!(direct.error().map(|error| error.kind), Some(ErrorKind::UnknownTool));
    assert!(matches!(host.hook("calculator"), Err(HookError::NotAHook(_))));
    assert!(matches!(host.hook("gone"), Err(HookError::NotLoaded(_))));
}

#[tokio::test]
async fn a_hook_that_is_not_approved_cannot_be_used() {
    let host = host_with(Load::bytes("judge", hook("ask").unwrap()).approval(None)).await;
    let error = host.hook("judge").unwrap_err();
    assert!(matches!(&error, HookError::NotApproved(error) if error.kind == ErrorKind::NeedsApproval), "{error}");
    assert!(error.to_string().contains("fumehood approve judge"), "{error}");
}

#[tokio::test]
async fn calls_are_refused_once_the_hook_is_gone_or_replaced() {
    let host = host_with(Load::bytes("judge", hook("guests-only").unwrap()).limits(limits())).await;
    let tools = tools(&host, host.hook("judge").unwrap());
    assert!(tools.dispatch(add()).await.is_ok());
    host.reload(Load::bytes("judge", hook("trap").unwrap()).limits(limits())).await.unwrap();
    check_refused(&tools.dispatch(add()).await, ErrorKind::Denied, "crashed");
    host.reload(Load::bytes("judge", example("text"))).await.unwrap();
    check_refused(&tools.dispatch(add()).await, ErrorKind::Denied, "is not a hook");
    host.reload(Load::bytes("judge", hook("guests-only").unwrap()).approval(None)).await.unwrap();
    check_refused(&tools.dispatch(add()).await, ErrorKind::NeedsApproval, "never approved");
    assert!(host.unload("judge"));
    check_refused(&tools.dispatch(add()).await, ErrorKind::Denied, "no longer loaded");
}

#[tokio::test]
async fn a_component_that_does_not_fit_the_world_is_not_loaded() {
    let empty = r#"(component (instance $i) (export "fumehood:hooks/hook@0.1.0" (instance $i)))"#;
    check_load_error(empty, "does not export the function `authorize`").await;
    let other = r#"(component
      (core module $m (func (export "f")))
      (core instance $c (instantiate $m))
      (func $f (canon lift (core func $c "f")))
      (instance $i (export "authorize" (func $f)) (export "before" (func $f)) (export "after" (func $f)))
      (export "fumehood:hooks/hook@0.1.0" (instance $i)))"#;
    check_load_error(other, "does not have the type").await;
    check_load_error(&empty.replace("0.1.0", "0.2.0"), "0.2.0").await;
}

async fn check_load_error(text: &str, part: &str) {
    let host = Host::builder().build().unwrap();
    let loaded = host.load(Load::bytes("judge", wat::parse_str(text).unwrap())).await;
    let error = format!("{:?}", loaded.err().unwrap());
    assert!(error.contains(part), "{error}");
}

#[tokio::test]
async fn the_example_leaves_addresses_out_of_results() {
    let host = host_with(Load::bytes("redact-email", example("redact-email"))).await;
    host.load(Load::bytes("text", example("text"))).await.unwrap();
    let tools = tools(&host, host.hook("redact-email").unwrap());
    let search = json!({"text": "write to ada@example.com", "pattern": ".+"});
    let result = tools.dispatch(Call::new("text__regex_search", search)).await;
    let text = result.text().unwrap();
    assert!(result.is_ok() && text.contains("[e-mail address]") && !text.contains("ada@"), "{text}");
}

#[tokio::test]
async fn the_example_limits_the_rate_of_each_actor() {
    let limit = |grant: Grant| Load::bytes("rate-limit", example("rate-limit")).grant(grant);
    let grant = Grant::none().with_environment(Environment::default().with("PER_MINUTE", "2").unwrap());
    let host = host_with(limit(grant.clone().with_key_value(KeyValueQuota::new(1 << 20).unwrap()))).await;
    let hooked = tools(&host, host.hook("rate-limit").unwrap().functions([HookFunction::Before]));
    let mut allowed = Vec::new();
    for _ in 0..6 {
        allowed.push(hooked.dispatch(add().actor("ada")).await.is_ok());
    }
    // A new minute may begin in between.
    let count = allowed.iter().filter(|is_allowed| **is_allowed).count();
    assert!((2..=4).contains(&count) && allowed[..2] == [true, true], "{allowed:?}");
    assert!(hooked.dispatch(add().actor("eve")).await.is_ok());
    // Without a store it cannot count.
    let host = host_with(limit(grant)).await;
    let hooked = tools(&host, host.hook("rate-limit").unwrap());
    let refused = hooked.dispatch(add()).await;
    assert!(refused.error().unwrap().message.as_str().contains("cannot be counted"), "{refused:?}");
}

/// Runs an agent whose model makes one call, with a program among the hooks. Returns the execution of that call.
async fn agent_call(program: &str, reply: ScriptedReply, approver: Option<Arc<dyn Approver>>) -> ToolExecution {
    let host = host_with(Load::bytes("judge", hook(program).unwrap()).limits(limits())).await;
    let hook: Arc<dyn Policy> =
        Arc::new(host.hook("judge").unwrap().tools(ToolPatterns::new(["calculator__*"]).unwrap()));
    let model = ScriptedModel::new(vec![reply, ScriptedReply::text("done")]);
    let mut agent = host.agent(Arc::new(model)).allow_everything().actor("eve").code(CodeMode::default());
    if let Some(approver) = approver {
        agent = agent.approver(approver);
    }
    let mut agent = agent.hooks([hook].into_iter().collect()).build().unwrap();
    let outcome = agent.run("go").await.unwrap();
    outcome.run.executions().next().unwrap().clone()
}

fn direct() -> ScriptedReply {
    ScriptedReply::call("calculator__add", r#"{"a": 1, "b": 2}"#)
}

/// The same call, made by a program, which returns its failure.
fn by_program() -> ScriptedReply {
    let code = "try { return await tools.calculator.add({a: 1, b: 2}) } catch (e) { return [e.kind, e.message] }";
    ScriptedReply::call("run_code", json!({"code": code}).to_string())
}

#[tokio::test]
async fn hooks_decide_on_calls_of_agents_and_of_their_programs_alike() {
    check_agent_call("change", &["42"]).await;
    check_agent_call("trap", &["`judge`", "crashed"]).await;
    check_agent_call("widen", &["`judge`", "to invalid ones"]).await;
    check_agent_call("guests-only", &["`judge`", "not you"]).await;
    check_agent_call("ask", &["May it run?", "needs approval"]).await;
}

async fn check_agent_call(program: &str, parts: &[&str]) {
    for reply in [direct(), by_program()] {
        let execution = agent_call(program, reply, None).await;
        let found = format!("{:?} {}", execution.result.text(), execution.error_message());
        assert!(parts.iter().all(|part| found.contains(part)), "{program}: {found}");
    }
}

/// An approver that says yes, if it was asked what the program `ask` asks.
struct HookQuestionApprover;

impl Approver for HookQuestionApprover {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let is_expected = question.text() == "May it run?";
        Box::pin(std::future::ready(if is_expected { Answer::Allow } else { Answer::no() }))
    }
}

#[tokio::test]
async fn an_approver_is_asked_what_a_hook_asks() {
    for reply in [direct(), by_program()] {
        let execution = agent_call("ask", reply, Some(Arc::new(HookQuestionApprover))).await;
        assert!(execution.result.text().unwrap().contains('3'), "{execution:?}");
    }
}
