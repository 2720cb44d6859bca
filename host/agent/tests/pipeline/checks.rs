//! Everything that a call passes before it runs.

use std::sync::Arc;

use fumehood_agent::allowlist::{Allowlists, EnvelopeKey, Skill};
use fumehood_agent::execution::Status;
use fumehood_agent::executor::{Scope, ToolExecutor as _};
use fumehood_agent::guardrail::{Answer, Human, Judge, JudgePolicy, Proposed, Question, RuleFn, Verdict};
use fumehood_agent::hook::{Before, BeforeFn, Field, ToolUse};
use fumehood_agent::pipeline::{Modes, PipelineBuilder, PipelineError, StreamEvent};
use fumehood_agent::registry::{BuiltIn, BuiltIns, Failure, Family, Invocation, Tool, ToolFamily};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::record::RecordKind;
use serde_json::json;

use crate::stage::{Pair, Stage, Text, reads, stage, stage_of, tools};

const ADD: &str = r#"{"a": 1, "b": 2}"#;

fn statuses(stage: &Stage) -> Vec<String> {
    stage.kept.of(RecordKind::Verdict).into_iter().filter_map(|record| record.status).collect()
}

struct Other(Family, Arc<BuiltIns>);

impl ToolFamily for Other {
    fn family(&self) -> Family {
        self.0
    }
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.1.tools()
    }
    fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.1.find(name)
    }
}

fn saying(name: &str, text: &'static str) -> Arc<BuiltIns> {
    let tools = BuiltIns::default();
    let run = move |_: crate::stage::Nothing, _: Arc<Invocation>| async move { Ok::<_, Failure>(text) };
    tools.register(BuiltIn::new(name, "Says where it is.", run).unwrap()).unwrap();
    Arc::new(tools)
}

#[tokio::test]
async fn c3_registries_are_asked_in_order_and_the_first_hit_wins() {
    let add = |builder: PipelineBuilder| {
        builder
            .family(Arc::new(Other(Family::Mcp, saying("where", "mcp"))))
            .family(Arc::new(Other(Family::Component, saying("where", "component"))))
            .family(Arc::new(Other(Family::Mcp, saying("only_mcp", "mcp"))))
    };
    let stage = stage(add);
    assert_eq!(stage.call("where", "{}").await.result.text(), Some("component"));
    assert_eq!(stage.call("only_mcp", "{}").await.result.text(), Some("mcp"));
    let names: Vec<_> = stage.pipeline.specs(&stage.scope).into_iter().map(|spec| spec.name).collect();
    assert_eq!(names.iter().filter(|name| *name == "where").count(), 1);
}

#[tokio::test]
async fn c4_a_miss_is_a_structured_failure() {
    let stage = stage(|builder| builder);
    let execution = stage.call("nope", "{}").await;
    assert_eq!(execution.status, Status::RejectedNotFound);
    assert_eq!(execution.error_message(), "[error: tool 'nope' not found in registry]");
    assert_eq!(execution.error().unwrap().kind, ErrorKind::UnknownTool);
    assert_eq!(stage.kept.kinds(), [RecordKind::ToolRejected]);
}

#[tokio::test]
async fn c5_arguments_that_do_not_fit_are_a_structured_failure() {
    let execution = stage(|builder| builder).call("add", r#"{"a": "1", "b": 2}"#).await;
    assert_eq!(execution.status, Status::RejectedSchema);
    assert!(execution.error_message().contains("/a: expected an integer"), "{}", execution.error_message());
}

#[tokio::test]
async fn i31_all_missing_parameters_are_listed() {
    let execution = stage(|builder| builder).call("add", "{}").await;
    assert!(execution.error_message().contains("Missing required parameters: a, b"), "{}", execution.error_message());
    assert!(execution.error_message().contains("arguments did not match schema"));
}

#[tokio::test]
async fn l10_nothing_is_coerced_and_nothing_undeclared_passes() {
    let stage = stage(|builder| builder);
    for arguments in [r#"{"a": "1", "b": 2}"#, r#"{"a": 1.5, "b": 2}"#, r#"{"a": 1, "b": 2, "c": 3}"#] {
        assert_eq!(stage.call("add", arguments).await.status, Status::RejectedSchema, "{arguments}");
    }
    let rejected = stage.kept.of(RecordKind::ToolRejected);
    assert_eq!(rejected[0].body["arguments"], json!({"a": "1", "b": 2}));
    assert_eq!(rejected[0].body["status"], "rejected_schema");
    assert_eq!(StreamEvent::of(&rejected[0]), Some(StreamEvent::ToolFailed));
    assert!(stage.kept.of(RecordKind::ToolStarted).is_empty());
}

#[tokio::test]
async fn l9_a_string_is_at_most_10240_bytes_wherever_it_stands() {
    let stage = stage(|builder| builder);
    let check = async |text: String, status: Status| {
        let execution = stage.call("echo", &json!({"text": text}).to_string()).await;
        assert_eq!(execution.status, status);
    };
    check("a".repeat(10_240), Status::Ok).await;
    check("a".repeat(10_241), Status::RejectedSchema).await;
    check("ä".repeat(5_121), Status::RejectedSchema).await;
}

#[tokio::test]
async fn l23_arguments_that_are_not_json_are_rejected_even_if_nothing_is_required() {
    let stage = stage(|builder| builder);
    for arguments in ["", " ", "{", "nonsense", "[]", "null", "{} {}"] {
        assert_eq!(stage.call("fail", arguments).await.status, Status::RejectedSchema, "{arguments:?}");
    }
}

#[tokio::test]
async fn l6_the_actor_is_asked_for_after_the_schema_and_before_the_tool() {
    let tools = BuiltIns::default();
    let run =
        |_: Text, call: Arc<Invocation>| async move { Ok::<_, Failure>(call.actor.as_deref().map(str::to_owned)) };
    let tool = BuiltIn::new("whoami", "Says who.", run).unwrap();
    tools.register(tool.with_authorize(|actor, _| actor.is_some())).unwrap();
    let mut stage = stage_of(Arc::new(tools), |builder| builder);
    assert_eq!(stage.call("whoami", "{}").await.status, Status::RejectedSchema);
    let refused = stage.call("whoami", r#"{"text": ""}"#).await;
    assert_eq!(refused.status, Status::RejectedUnauthorized);
    assert_eq!(refused.error_message(), "[error: not authorized to call tool 'whoami']");
    stage.scope.actor = Some(Arc::from("ann"));
    let execution = stage.call("whoami", r#"{"text": ""}"#).await;
    assert_eq!(execution.result.text(), Some("ann"));
    // l20: the actor is nowhere in what the model wrote or is shown of the tool.
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
async fn k18_a_tool_of_another_skill_is_refused_and_invisible() {
    let stage = skilled();
    let execution = stage.call("echo", r#"{"text": "x"}"#).await;
    assert_eq!(execution.status, Status::RejectedAllowlist);
    assert_eq!(execution.error_message(), "Tool 'echo' is not allowed for skill 'math'. Allowed: [add, divide]");
    let names: Vec<_> = stage.pipeline.specs(&stage.scope).into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["add", "divide"]);
}

#[tokio::test]
async fn k17_no_other_name_is_in_the_refusal_or_the_records() {
    let stage = skilled();
    let execution = stage.call("echo", "{}").await;
    for hidden in ["panic", "stop", "fail"] {
        assert!(!execution.error_message().contains(hidden));
        assert!(!stage.kept.text().contains(&format!("\"{hidden}\"")));
    }
}

#[tokio::test]
async fn k19_nothing_in_the_call_can_widen_the_list() {
    let stage = skilled();
    for name in ["echo", "ECHO", "echo ", "add\u{200b}", "math/echo", "\u{0435}cho"] {
        assert!(stage.call(name, r#"{"text": "allowed: [echo]", "skill": "talk"}"#).await.has_error(), "{name}");
    }
}

#[tokio::test]
async fn l5_the_envelope_is_enforced_when_the_call_is_made() {
    let lists = Allowlists { key: EnvelopeKey::new([3; 32]).ok(), ..Allowlists::default() };
    let envelope = lists.seal("support", Some(["add".to_owned()].into()), None, None).unwrap();
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
async fn l18_refusals_that_nobody_else_needs_to_know_are_not_streamed() {
    let stage = skilled();
    stage.call("echo", "{}").await;
    stage.call("nope", "{}").await;
    assert!(stage.kept.of(RecordKind::ToolRejected).iter().all(|record| StreamEvent::of(record).is_none()));
    stage.call("add", ADD).await;
    let told: Vec<_> = stage.kept.0.lock().unwrap().iter().filter_map(StreamEvent::of).collect();
    assert_eq!(told, [StreamEvent::ToolStarted, StreamEvent::ToolFinished]);
}

#[test]
fn k9_a_skill_that_names_what_is_not_there_is_refused() {
    let lists =
        Allowlists { skills: [("s".to_owned(), Skill::new().component_tool("ad"))].into(), ..Allowlists::default() };
    let error = PipelineBuilder::default().family(tools()).allowlists(lists).build().unwrap_err();
    assert!(matches!(&error, PipelineError::UnknownTool { skill, tool } if skill == "s" && tool == "ad"), "{error}");
}

#[tokio::test]
async fn c10_a_rule_changes_the_arguments_and_the_agent_is_told() {
    let rule = RuleFn::new("cap", |_: &Proposed| Verdict::Modify {
        arguments: json!({"a": 1, "b": 1}),
        note: "b was capped at 1".to_owned(),
    });
    let stage = stage(|builder| builder.rule(Arc::new(rule)));
    let execution = stage.call("add", ADD).await;
    assert_eq!(execution.result.text(), Some("2"));
    assert_eq!(execution.modified.as_deref(), Some("b was capped at 1"));
    assert_eq!(stage.kept.of(RecordKind::Verdict)[0].status.as_deref(), Some("modify"));
}

#[tokio::test]
async fn what_a_rule_makes_of_arguments_is_checked_again() {
    let rule = RuleFn::new("bad", |_: &Proposed| Verdict::Modify { arguments: json!({"a": "x"}), note: String::new() });
    let execution = stage(|builder| builder.rule(Arc::new(rule))).call("add", ADD).await;
    assert_eq!(execution.status, Status::RejectedDenied);
}

#[tokio::test]
async fn c11_a_denied_call_never_runs_and_says_why() {
    let rule = RuleFn::new("no", |_: &Proposed| Verdict::Deny { reason: "not on Sundays".to_owned() });
    let stage = stage(|builder| builder.rule(Arc::new(rule)));
    let execution = stage.call("add", ADD).await;
    assert_eq!((execution.status, execution.error().unwrap().kind), (Status::RejectedDenied, ErrorKind::Denied));
    assert!(execution.error_message().contains("not on Sundays"));
    assert!(stage.kept.of(RecordKind::ToolStarted).is_empty());
}

#[tokio::test]
async fn c12_every_verdict_is_recorded_with_its_call() {
    let allow = RuleFn::new("yes", |_: &Proposed| Verdict::Allow);
    let stage = stage(|builder| builder.rule(Arc::new(allow)));
    stage.call("add", ADD).await;
    let verdict = &stage.kept.of(RecordKind::Verdict)[0];
    assert_eq!((verdict.status.as_deref(), verdict.call.as_deref()), (Some("allow"), Some("c0")));
    assert_eq!(verdict.body["by"], "yes");
    assert_eq!(stage.kept.of(RecordKind::ToolStarted)[0].parent.as_ref(), Some(&verdict.id));
}

struct No;

impl Judge for No {
    fn judge<'a>(&'a self, _: &'a Proposed) -> BoxFuture<'a, Verdict> {
        Box::pin(std::future::ready(Verdict::Deny { reason: "judged".to_owned() }))
    }
}

#[tokio::test]
async fn c8_reads_are_not_judged_unless_the_policy_asks_for_it() {
    let judged = |policy: JudgePolicy| stage(move |builder| builder.judge(Arc::new(No), policy));
    let default = judged(JudgePolicy::default());
    assert_eq!(default.call("add", ADD).await.status, Status::Ok);
    assert_eq!(default.call("echo", r#"{"text": ""}"#).await.status, Status::RejectedDenied);
    let always = judged(JudgePolicy { always: ["add".to_owned()].into(), ..JudgePolicy::default() });
    assert_eq!(always.call("add", ADD).await.status, Status::RejectedDenied);
    let never = judged(JudgePolicy { never: ["echo".to_owned()].into(), ..JudgePolicy::default() });
    assert_eq!(never.call("echo", r#"{"text": ""}"#).await.status, Status::Ok);
}

struct Says(Answer);

impl Human for Says {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        assert_eq!(question.question, "really?");
        Box::pin(std::future::ready(self.0.clone()))
    }
}

#[tokio::test]
async fn c11_a_person_is_asked_and_nobody_means_no() {
    let ask = || Arc::new(RuleFn::new("ask", |_: &Proposed| Verdict::Ask { question: "really?".to_owned() }));
    let nobody = stage(|builder| builder.rule(ask()));
    assert_eq!(nobody.call("add", ADD).await.error().unwrap().kind, ErrorKind::NeedsApproval);
    let yes = stage(|builder| builder.rule(ask()).human(Arc::new(Says(Answer::Allow))));
    assert_eq!(yes.call("add", ADD).await.status, Status::Ok);
    assert_eq!(statuses(&yes), ["ask", "allow"]);
    let no = Answer::Deny { reason: "no!".to_owned() };
    let no = stage(|builder| builder.rule(ask()).human(Arc::new(Says(no))));
    assert!(no.call("add", ADD).await.error_message().contains("no!"));
    assert_eq!(statuses(&no), ["ask", "deny"]);
}

#[tokio::test]
async fn i27_a_hook_changes_or_blocks_a_call() {
    let hook = |before: Before| {
        BeforeFn::new("hook", 0, &[Field::Arguments], move |call: &mut ToolUse| {
            call.arguments = json!({"a": 10, "b": 10});
            before.clone()
        })
    };
    let changed = stage(|builder| builder.before(Arc::new(hook(Before::Continue))));
    assert_eq!(changed.call("add", ADD).await.result.text(), Some("20"));
    let blocked = stage(|builder| builder.before(Arc::new(hook(Before::Block { message: None }))));
    let execution = blocked.call("add", ADD).await;
    assert!(execution.was_blocked());
    assert_eq!(execution.error_message(), "Tool execution blocked by beforeToolUse hook.");
    assert_eq!(blocked.kept.kinds(), [RecordKind::ToolRejected]);
}

#[tokio::test]
async fn a_hook_cannot_change_a_call_into_one_that_would_be_refused() {
    let hook = BeforeFn::new("hook", 0, &[Field::Arguments], |call: &mut ToolUse| {
        call.arguments = json!({"a": "x"});
        Before::Continue
    });
    let stage = stage(|builder| builder.before(Arc::new(hook)));
    assert_eq!(stage.call("add", ADD).await.status, Status::RejectedSchema);
}

#[tokio::test]
async fn i40_undeclared_changes_are_undone_and_fail_in_strict_mode() {
    let hook = || {
        Arc::new(BeforeFn::new("sly", 0, &[] as &[Field], |call: &mut ToolUse| {
            call.arguments = json!({"a": 10, "b": 10});
            Before::Continue
        }))
    };
    let lenient = stage(|builder| builder.before(hook()));
    assert_eq!(lenient.call("add", ADD).await.result.text(), Some("3"));
    assert_eq!(statuses(&lenient), ["undeclared_change"]);
    let strict = stage(|builder| builder.before(hook()).modes(Modes { strict_hooks: true, ..Modes::default() }));
    let execution = strict.call("add", ADD).await;
    assert!(execution.error_message().contains("'sly' changed `arguments`"), "{}", execution.error_message());
}

#[tokio::test]
async fn i40_hooks_run_in_descending_priority() {
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hook = |name: &'static str, priority| {
        let order = Arc::clone(&order);
        Arc::new(BeforeFn::new(name, priority, &[] as &[Field], move |_: &mut ToolUse| {
            order.lock().unwrap().push(name);
            Before::Continue
        }))
    };
    let stage = stage(|builder| builder.before(hook("low", -1)).before(hook("mid", 0)).before(hook("high", 9)));
    stage.call("add", ADD).await;
    assert_eq!(*order.lock().unwrap(), ["high", "mid", "low"]);
}

#[tokio::test]
async fn i29_a_tool_that_asks_for_it_sees_the_state_as_hooks_left_it() {
    let tools = BuiltIns::default();
    let run =
        |_: Pair, call: Arc<Invocation>| async move { Ok::<_, Failure>(call.state.as_deref().map(str::to_owned)) };
    tools.register(BuiltIn::new("with", "Sees.", run).unwrap().with_state().with_annotations(reads())).unwrap();
    tools.register(BuiltIn::new("without", "Does not see.", run).unwrap()).unwrap();
    let hook = BeforeFn::new("state", 0, &[Field::State], |call: &mut ToolUse| {
        call.state = Some(Arc::from(r#"{"n":2}"#));
        Before::Continue
    });
    let mut stage = stage_of(Arc::new(tools), |builder| builder.before(Arc::new(hook)));
    stage.scope = Scope { state: Some(Arc::from(r#"{"n":1}"#)), ..stage.scope };
    assert_eq!(stage.call("with", ADD).await.result.text(), Some(r#"{"n":2}"#));
    assert_eq!(stage.call("without", ADD).await.result.text(), Some("null"));
    assert_eq!(stage.scope.state.as_deref(), Some(r#"{"n":1}"#));
}
