//! Rules, judges, approvers and hooks before a call.

use std::sync::Arc;

use fumehood_agent::execution::Status;
use fumehood_agent::executor::Scope;
use fumehood_agent::guardrail::ModelJudge;
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltIns};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::chat::{ModelError, Request, Response, Usage};
use fumehood_core::policy::call::{Answer, Approver, Decision, Policy, PolicyFn, Question, Ruling};
use fumehood_core::record::RecordKind;
use fumehood_core::tool::{ToolProvider as _, ValidatedCall};
use serde_json::json;

use super::stage::{Pair, Stage, before, read_only, stage, stage_of};

const ADD: &str = r#"{"a": 1, "b": 2}"#;

fn statuses(stage: &Stage) -> Vec<String> {
    stage.recorder.of_kind(RecordKind::Verdict).into_iter().filter_map(|record| record.status).collect()
}

#[tokio::test]
async fn a_rule_changes_the_arguments_and_the_agent_is_told() {
    let rule = PolicyFn::new("cap", |_: &ValidatedCall, _: &CallContext| Decision::Rewrite {
        to: Arguments::Value(json!({"a": 1, "b": 1})),
        note: Some("b was capped at 1".to_owned()),
    });
    let stage = stage(|builder| builder.rule(Arc::new(rule)));
    let execution = stage.call("add", ADD).await;
    assert_eq!(execution.result.text().as_deref(), Some("2"));
    assert_eq!(execution.modified.as_deref(), Some("b was capped at 1"));
    assert_eq!(stage.recorder.of_kind(RecordKind::Verdict)[0].status.as_deref(), Some("modify"));
}

#[tokio::test]
async fn checks_arguments_that_a_rule_changed() {
    let rule = PolicyFn::new("bad", |_: &ValidatedCall, _: &CallContext| Decision::Rewrite {
        to: Arguments::Value(json!({"a": "x"})),
        note: None,
    });
    let execution = stage(|builder| builder.rule(Arc::new(rule))).call("add", ADD).await;
    assert_eq!(execution.status, Status::RejectedDenied);
}

#[tokio::test]
async fn a_denied_call_never_runs_and_says_why() {
    let rule = PolicyFn::new("no", |_: &ValidatedCall, _: &CallContext| Decision::deny("not on Sundays"));
    let stage = stage(|builder| builder.rule(Arc::new(rule)));
    let execution = stage.call("add", ADD).await;
    assert_eq!((execution.status, execution.error().unwrap().kind), (Status::RejectedDenied, ErrorKind::Denied));
    assert!(execution.error_message().contains("not on Sundays"));
    assert!(stage.recorder.of_kind(RecordKind::ToolStarted).is_empty());
}

#[tokio::test]
async fn every_verdict_is_recorded_with_its_call() {
    let allow = PolicyFn::new("yes", |_: &ValidatedCall, _: &CallContext| Decision::Allow);
    let stage = stage(|builder| builder.rule(Arc::new(allow)));
    stage.call("add", ADD).await;
    let verdict = &stage.recorder.of_kind(RecordKind::Verdict)[0];
    assert_eq!((verdict.status.as_deref(), verdict.body["model_call"].as_str()), (Some("allow"), Some("c0")));
    assert_eq!(verdict.body["by"], "yes");
    assert_eq!(stage.recorder.of_kind(RecordKind::ToolStarted)[0].parent.as_ref(), Some(&verdict.id));
}

/// A judge that denies every call.
struct DenyingJudge;

impl Policy for DenyingJudge {
    fn name(&self) -> &str {
        "judge"
    }

    fn before<'a>(&'a self, _: &'a ValidatedCall, _: &'a CallContext) -> BoxFuture<'a, Result<Ruling, CallError>> {
        let decision = Decision::deny("judged");
        Box::pin(std::future::ready(Ok(Ruling { decision, usage: Usage::new(30, 4) })))
    }
}

/// A stage whose judge is a model that denies every call, for these tools and not for those.
fn judged(always: &[&str], never: &[&str]) -> Stage {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let model = |_: &Request| Ok::<_, ModelError>(Response::text(r#"{"verdict": "deny"}"#));
    let judge = ModelJudge::new(Arc::new(model), "").always(names(always)).never(names(never));
    stage(move |builder| builder.judge(Arc::new(judge)))
}

#[tokio::test]
async fn what_a_judge_used_is_told_with_the_batch() {
    let stage = stage(move |builder| builder.judge(Arc::new(DenyingJudge)));
    let outcome = stage.batch(&[("add", ADD), ("add", ADD)]).await;
    assert_eq!(outcome.usage, Usage::new(60, 8));
    assert_eq!(stage.recorder.of_kind(RecordKind::Verdict)[0].body["usage"], json!({"input": 30, "output": 4}));
    let none = stage.batch(&[("nowhere", "{}")]).await;
    assert_eq!(none.usage, Usage::default());
}

#[tokio::test]
async fn reads_are_not_judged_unless_the_policy_asks_for_it() {
    let default = judged(&[], &[]);
    assert_eq!(default.call("add", ADD).await.status, Status::Ok);
    assert_eq!(default.call("echo", r#"{"text": ""}"#).await.status, Status::RejectedDenied);
    assert_eq!(judged(&["add"], &[]).call("add", ADD).await.status, Status::RejectedDenied);
    assert_eq!(judged(&[], &["echo"]).call("echo", r#"{"text": ""}"#).await.status, Status::Ok);
}

/// An approver with a fixed answer.
struct FixedAnswer(Answer);

impl Approver for FixedAnswer {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        assert_eq!(question.text(), "really?");
        Box::pin(std::future::ready(self.0.clone()))
    }
}

#[tokio::test]
async fn a_person_is_asked_and_nobody_means_no() {
    fn ask() -> Arc<dyn Policy> {
        Arc::new(PolicyFn::new("ask", |_: &ValidatedCall, _: &CallContext| Decision::ask("really?")))
    }

    let nobody = stage(|builder| builder.rule(ask()));
    assert_eq!(nobody.call("add", ADD).await.error().unwrap().kind, ErrorKind::NeedsApproval);
    let yes = stage(|builder| builder.rule(ask()).approver(Arc::new(FixedAnswer(Answer::Allow))));
    assert_eq!(yes.call("add", ADD).await.status, Status::Ok);
    assert_eq!(statuses(&yes), ["ask", "allow"]);
    let no = Answer::Deny { reason: "no!".to_owned() };
    let no = stage(|builder| builder.rule(ask()).approver(Arc::new(FixedAnswer(no))));
    assert!(no.call("add", ADD).await.error_message().contains("no!"));
    assert_eq!(statuses(&no), ["ask", "deny"]);
}

/// Returns a hook that changes the arguments to these.
fn changing(arguments: &'static str) -> Arc<dyn Policy> {
    before("change", move |_| Decision::Rewrite { to: Arguments::Text(arguments.to_owned()), note: None })
}

#[tokio::test]
async fn a_hook_changes_or_blocks_a_call() {
    let changed = stage(|builder| builder.call_hooks([changing(r#"{"a": 10, "b": 10}"#)].into_iter().collect()));
    assert_eq!(changed.call("add", ADD).await.result.text().as_deref(), Some("20"));
    let block = before("block", |_| Decision::deny("not today"));
    let blocked = stage(|builder| builder.call_hooks([block].into_iter().collect()));
    let execution = blocked.call("add", ADD).await;
    assert!(execution.is_blocked());
    assert_eq!(execution.error_message(), "denied by the hook `block`: not today");
    assert_eq!(blocked.recorder.kinds(), [RecordKind::ToolRejected]);
}

#[tokio::test]
async fn checks_arguments_that_a_hook_changed() {
    let stage = stage(|builder| builder.call_hooks([changing(r#"{"a": "x"}"#)].into_iter().collect()));
    let execution = stage.call("add", ADD).await;
    assert_eq!(execution.status, Status::Blocked);
    assert!(execution.error_message().contains("changed the arguments to invalid ones"));
}

#[tokio::test]
async fn hooks_run_in_the_order_in_which_they_are_given() {
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hooks = ["first", "second", "third"].map(|name| {
        let order = Arc::clone(&order);
        before(name, move |_| {
            order.lock().unwrap().push(name);
            Decision::Allow
        })
    });
    let stage = stage(|builder| builder.call_hooks(hooks.into_iter().collect()));
    stage.call("add", ADD).await;
    assert_eq!(*order.lock().unwrap(), ["first", "second", "third"]);
}

#[tokio::test]
async fn a_tool_that_asks_for_it_sees_the_state() {
    let tools = BuiltIns::default();
    let run =
        |_: Pair, call: CallContext| async move { Ok::<_, BuiltInError>(call.state.as_deref().map(str::to_owned)) };
    tools.register(BuiltIn::new("with", "Sees.", run).unwrap().with_state().with_annotations(read_only())).unwrap();
    tools.register(BuiltIn::new("without", "Does not see.", run).unwrap()).unwrap();
    let mut stage = stage_of(Arc::new(tools), |builder| builder);
    stage.scope = Scope { state: Some(Arc::from(r#"{"n":1}"#)), ..stage.scope };
    assert_eq!(stage.call("with", ADD).await.result.text().as_deref(), Some(r#"{"n":1}"#));
    assert_eq!(stage.call("without", ADD).await.result.text().as_deref(), Some("null"));
    assert_eq!(stage.scope.state.as_deref(), Some(r#"{"n":1}"#));
}

#[tokio::test]
async fn state_of_a_tool_is_a_copy_that_it_cannot_change() {
    let tools = Arc::new(BuiltIns::default());
    let run = |pair: Pair, call: CallContext| async move {
        let mut copy: serde_json::Value = serde_json::from_str(call.state.as_deref().unwrap()).unwrap();
        let before = copy["n"].clone();
        copy["n"] = pair.a.into();
        // The other call of the batch runs in between.
        tokio::task::yield_now().await;
        Ok::<_, BuiltInError>(json!([before, copy["n"], call.state.as_deref()]))
    };
    tools.register(BuiltIn::new("counts", "Counts.", run).unwrap().with_state()).unwrap();
    let before = tools.tools();
    let mut stage = stage_of(Arc::clone(&tools), |builder| builder);
    let state: Arc<str> = Arc::from(r#"{"n":1}"#);
    stage.scope.state = Some(Arc::clone(&state));
    let outcome = stage.batch(&[("counts", r#"{"a": 7, "b": 0}"#), ("counts", r#"{"a": 8, "b": 0}"#)]).await;
    let texts: Vec<_> = outcome.executions.iter().map(|it| it.result.text().unwrap().into_owned()).collect();
    assert_eq!(texts, [r#"[1,7,"{\"n\":1}"]"#, r#"[1,8,"{\"n\":1}"]"#]);
    assert_eq!(stage.scope.state, Some(state), "the agent's own is unchanged");
    let after = tools.tools();
    assert!(before.iter().zip(&after).all(|(one, other)| Arc::ptr_eq(one, other)), "so is the registered tool");
}

#[tokio::test]
async fn rules_are_asked_after_the_schema_and_before_the_tool() {
    let allow = PolicyFn::new("yes", |_: &ValidatedCall, _: &CallContext| Decision::Allow);
    let stage = stage(|builder| builder.rule(Arc::new(allow)));
    stage.call("add", "{}").await;
    assert_eq!(stage.recorder.kinds(), [RecordKind::ToolRejected]);
    stage.call("add", ADD).await;
    assert_eq!(stage.recorder.kinds()[1..3], [RecordKind::Verdict, RecordKind::ToolStarted]);
}

#[tokio::test]
async fn an_allowed_call_goes_on_unchanged() {
    let allow = PolicyFn::new("yes", |_: &ValidatedCall, _: &CallContext| Decision::Allow);
    let execution = stage(|builder| builder.rule(Arc::new(allow))).call("add", ADD).await;
    assert_eq!((execution.result.text().as_deref(), execution.modified), (Some("3"), None));
}

#[tokio::test]
async fn a_rate_limit_needs_no_change_of_the_agent() {
    let left = std::sync::atomic::AtomicU32::new(2);
    let limit = PolicyFn::new("rate", move |_: &ValidatedCall, _: &CallContext| {
        let free = left.fetch_update(std::sync::atomic::Ordering::Relaxed, std::sync::atomic::Ordering::Relaxed, |n| {
            n.checked_sub(1)
        });
        free.map_or(Decision::deny("too many calls"), |_| Decision::Allow)
    });
    let stage = stage(|builder| builder.rule(Arc::new(limit)));
    let outcome = stage.batch(&[("add", ADD); 3]).await;
    assert_eq!(outcome.executions.iter().filter(|execution| execution.has_error()).count(), 1);
}
