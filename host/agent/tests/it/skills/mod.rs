//! Skills: those that no model runs, those whose result has a type, and the replay of their channels.

mod replay;
mod result_types;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fumehood_agent::agent::{Agent, LoopBuilder, TypedRunError};
use fumehood_agent::allowlist::{Allowlists, Channel, ChannelContext, EnvelopeKey, Implementation, Skill};
use fumehood_agent::batch::BatchDriver;
use fumehood_agent::budget::{Budget, BudgetKind};
use fumehood_agent::code::{CodeMode, ProgramLimits};
use fumehood_agent::deferred::GivenAnswer;
use fumehood_agent::executor::Scope;
use fumehood_agent::native::NativeDriver;
use fumehood_agent::persistence::Persistence;
use fumehood_agent::pipeline::{PipelineBuilder, PipelineError};
use fumehood_agent::registry::ToolPolicy;
use fumehood_agent::session::{OutputSchema, SavedSession, SessionConfig};
use fumehood_agent::tool_search::ToolSearch;
use fumehood_agent::transcript::{Ending, StepKind};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::chat::{Model, Request, Response};
use fumehood_core::policy::call::{Decision, DeferringApprover, Policy, PolicyFn};
use fumehood_core::record::{Record, RecordError, RecordKind};
use fumehood_core::saved_session::{SessionEntry, SessionStore};
use fumehood_core::time::Timestamp;
use fumehood_core::tool::ValidatedCall;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::line_interpreter::Lines;
use crate::pipeline::stage::{RecordingRecorder, everything, tools};

#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema)]
struct Sum {
    sum: i64,
}

/// A model that gives these answers, and keeps what it was asked.
#[derive(Default)]
struct Asked(Mutex<Vec<Request>>);

impl Asked {
    fn model(self: &Arc<Self>, answers: &[&str]) -> Arc<dyn Model> {
        let asked = Arc::clone(self);
        let answers = answers.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        Arc::new(move |request: &Request| {
            let mut asked = asked.0.lock().unwrap();
            asked.push(request.clone());
            Ok(Response::text(answers[asked.len() - 1].clone()))
        })
    }

    fn requests(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn tool_skill(name: &str) -> Skill {
    Skill::new().implemented_by(Implementation::Tool(name.to_owned()))
}

fn program_skill(code: &str, tools: &[&str]) -> Skill {
    Skill::new().implemented_by(Implementation::program(code, tools.iter().copied()))
}

fn lists(skill: Skill) -> Allowlists {
    Allowlists { skills: [("task".to_owned(), skill)].into(), ..everything() }
}

fn scope() -> Scope {
    Scope { skill: Some(Arc::from("task")), ..Scope::default() }
}

/// Builds an agent with the skill `task` in use.
fn agent_with(
    skill: Skill,
    model: Arc<dyn Model>,
    recorder: &Arc<RecordingRecorder>,
    with: impl FnOnce(PipelineBuilder) -> PipelineBuilder,
) -> LoopBuilder {
    let builder = PipelineBuilder::default().built_ins(tools()).allowlists(lists(skill)).recorder(recorder.clone());
    let config = SessionConfig { id: "s".to_owned(), ..SessionConfig::default() };
    Agent::builder(model)
        .driver(NativeDriver::default())
        .executor(Arc::new(with(builder).build().unwrap()))
        .config(config)
        .scope(scope())
        .recorder(recorder.clone())
}

/// Runs a message with a skill, and checks that no model was asked.
async fn run(skill: Skill, message: &str, with: impl FnOnce(PipelineBuilder) -> PipelineBuilder) -> Ending {
    let asked = Arc::new(Asked::default());
    let mut agent = agent_with(skill, asked.model(&[]), &Arc::default(), with).build().unwrap();
    let outcome = agent.run(message).await.unwrap();
    assert_eq!(asked.requests(), 0);
    outcome.ending
}

fn answered(text: &str) -> Ending {
    Ending::Answered { text: text.to_owned() }
}

fn with_lines(builder: PipelineBuilder) -> PipelineBuilder {
    builder.skill_interpreter(Arc::new(Lines::default()), ProgramLimits::default())
}

#[test]
fn a_skill_with_tools_is_for_a_model_and_one_that_is_implemented_is_not() {
    assert!(Skill::new().component_tool("echo").is_agentic());
    assert!(Skill::new().is_agentic(), "the model answers by itself");
    assert!(!tool_skill("echo").is_agentic());
}

#[tokio::test]
async fn a_skill_that_a_tool_implements_asks_no_model() {
    let asked = Arc::new(Asked::default());
    let recorder = Arc::new(RecordingRecorder::default());
    let mut agent = agent_with(tool_skill("add"), asked.model(&[]), &recorder, |builder| builder).build().unwrap();
    assert!(agent.tools().is_empty(), "no model is shown any");
    let outcome = agent.run(r#" {"a": 3, "b": 5} "#).await.unwrap();
    assert_eq!((outcome.text(), asked.requests()), ("8", 0));
    let [step] = &outcome.run.steps[..] else { panic!("{:?}", outcome.run) };
    assert_eq!((step.kind.clone(), step.requests(), step.calls().count()), (StepKind::ToolCalls, 0, 1));
    assert_eq!((agent.session().budget_usage().turns, agent.session().budget_usage().calls), (0, 1));
    agent.close().await.unwrap();
    let expected = [
        RecordKind::SessionStarted,
        RecordKind::UserMessage,
        RecordKind::ToolStarted,
        RecordKind::ToolFinished,
        RecordKind::ToolResult,
        RecordKind::StepFinished,
        RecordKind::SessionFinished,
    ];
    assert_eq!(recorder.kinds(), expected);
    let started = recorder.of_kind(RecordKind::ToolStarted).remove(0);
    assert_eq!((started.tool.as_deref(), &started.body["skill"]), (Some("add"), &json!("task")));
    assert_eq!(started.parent, Some(recorder.of_kind(RecordKind::UserMessage)[0].id.clone()));
}

#[tokio::test]
async fn message_is_an_object_or_the_only_text_of_the_tool() {
    assert_eq!(run(tool_skill("echo"), "two\n\"words\"", |it| it).await, answered("two\n\"words\""));
    assert_eq!(run(tool_skill("echo"), r#"{"text": "x"}"#, |it| it).await, answered("x"));
    for (tool, message, expected) in [
        ("add", "three and five", "give its arguments as a JSON object, such as {\"a\": …, \"b\": …}"),
        ("add", r#"{"a": 1}"#, "\"b\""),
        ("add", r#"{"a": 1, "b": "2"}"#, "/b"),
        ("echo", r#"{"text": "#, "JSON"),
        ("fail", "{}", "it failed"),
        ("panic", "{}", "Exception during execution of tool 'panic'"),
    ] {
        let ending = run(tool_skill(tool), message, |it| it).await;
        let Ending::ToolFailed { tool: named, message: text } = &ending else { panic!("{ending:?}") };
        assert!(named == tool && text.contains(expected), "{tool} {message}: {text}");
    }
    let ending = run(tool_skill("stop"), "{}", |it| it).await;
    assert_eq!(ending, Ending::Stopped { reason: "enough".to_owned() });
}

#[tokio::test]
async fn a_skill_that_a_program_implements_asks_no_model() {
    let calls = "host__add {\"a\": 1, \"b\": 2}\nhost__echo {\"text\": \"x\"}";
    let skill = || program_skill(calls, &["add"]);
    let ending = run(skill(), "go", with_lines).await;
    let Ending::Answered { text } = &ending else { panic!("{ending:?}") };
    let values: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!((&values[0], &values[1][0]), (&json!(3), &json!("not_allowed")), "{text}");
    // In code mode of the model as well, in whatever mode.
    for mode in [CodeMode::only(), CodeMode::beside_direct_calls()] {
        let ending = run(skill(), "go", |builder| builder.code(Arc::new(Lines::default()), mode)).await;
        assert!(matches!(ending, Ending::Answered { .. }), "{ending:?}");
    }
    let ending = run(program_skill("throw no", &[]), "go", with_lines).await;
    assert!(matches!(&ending, Ending::ToolFailed { tool, message } if tool == "run_code" && message.contains("no")));
    let ending = run(skill(), "{\"a\": ", with_lines).await;
    assert!(matches!(&ending, Ending::ToolFailed { message, .. } if message.contains("is not a JSON object")));
    let ending = run(skill(), &"x".repeat(64 << 10), with_lines).await;
    assert!(
        matches!(&ending, Ending::ToolFailed { message, .. } if message.contains("the maximum is 64")),
        "{ending:?}"
    );
}

#[tokio::test]
async fn program_gets_the_message_as_its_input() {
    let lines = Arc::new(Lines::default());
    for (message, expected) in [
        ("a \"b\"\n</script> \u{2028}", json!("a \"b\"\n</script> \u{2028}")),
        ("[1]", json!("[1]")),
        (r#" {"__proto__": {"a": 1}, "b": "`${x}`"}"#, json!({"__proto__": {"a": 1}, "b": "`${x}`"})),
    ] {
        let interpreter = Arc::clone(&lines);
        let skill = program_skill("end", &[]);
        run(skill, message, |builder| builder.skill_interpreter(interpreter, ProgramLimits::default())).await;
        assert_eq!(lines.inputs.lock().unwrap().pop(), Some(expected), "{message}");
    }
}

#[test]
fn implementations_that_cannot_work_are_refused_at_once() {
    fn refused(skill: Skill) -> String {
        build(skill).0.build().err().unwrap().to_string()
    }

    fn build(skill: Skill) -> (PipelineBuilder, ProgramLimits) {
        let builder = PipelineBuilder::default().built_ins(tools()).allowlists(lists(skill));
        (builder, ProgramLimits { code: 3, ..ProgramLimits::default() })
    }

    assert!(refused(tool_skill("ad")).contains("names the tool 'ad', which is not registered"));
    assert!(refused(program_skill("", &["ad"])).contains("names the tool 'ad'"));
    assert!(refused(tool_skill("add").component_tool("echo")).contains("leave one of them out"));
    assert!(refused(program_skill("end", &["add"])).contains("the pipeline has no interpreter"));
    let (builder, limits) = build(program_skill("four", &[]));
    let large = builder.skill_interpreter(Arc::new(Lines::default()), limits).build();
    assert!(matches!(large, Err(PipelineError::LargeProgram { bytes: 4, limit: 3, .. })));
}

#[tokio::test]
async fn interpreter_of_a_skill_is_none_of_the_model() {
    let skills = [("task".to_owned(), program_skill("end", &[])), ("talk".to_owned(), Skill::new())];
    let allowlists = Allowlists { skills: skills.into(), ..everything() };
    let builder = PipelineBuilder::default().built_ins(tools()).allowlists(allowlists);
    let pipeline = with_lines(builder).build().unwrap();
    for skill in [None, Some(Arc::from("talk"))] {
        use fumehood_agent::executor::ToolExecutor as _;
        let scope = Scope { skill, ..Scope::default() };
        assert!(pipeline.specs(&scope).iter().all(|spec| spec.name != "run_code"));
        let call = crate::pipeline::stage::intent("c", "run_code", r#"{"code": "end"}"#);
        assert!(pipeline.execute(vec![call], &scope).await.executions[0].has_error());
    }
}

#[tokio::test]
async fn call_of_a_skill_passes_the_checks_of_any_other() {
    let deny = |_: &ValidatedCall, _: &CallContext| Decision::deny("not today");
    let ending = run(tool_skill("echo"), "x", |builder| builder.rule(Arc::new(PolicyFn::new("no", deny)))).await;
    assert!(matches!(&ending, Ending::ToolFailed { message, .. } if message.contains("not today")), "{ending:?}");
    let trim = |call: &ValidatedCall, _: &CallContext| Decision::Rewrite {
        to: Arguments::Value(json!({"text": call.arguments()["text"].as_str().unwrap().to_uppercase()})),
        note: Some("louder".to_owned()),
    };
    let ending = run(tool_skill("echo"), "x", |builder| builder.rule(Arc::new(PolicyFn::new("loud", trim)))).await;
    assert_eq!(ending, answered("X"));
    let ask = |_: &ValidatedCall, _: &CallContext| Decision::ask("may it?");
    let ending = run(tool_skill("echo"), "x", |builder| builder.rule(Arc::new(PolicyFn::new("ask", ask)))).await;
    assert!(matches!(&ending, Ending::ToolFailed { message, .. } if message.contains("may it?")), "{ending:?}");
    // What a search has to show first is for a model.
    assert_eq!(run(tool_skill("echo"), "x", |builder| builder.tool_search(ToolSearch::new())).await, answered("x"));
    let calls = "host__echo {\"text\": \"x\"}";
    let search = |builder: PipelineBuilder| with_lines(builder.tool_search(ToolSearch::new()));
    assert_eq!(run(program_skill(calls, &["echo"]), "x", search).await, answered(r#"["x"]"#));
}

#[tokio::test]
async fn call_of_a_skill_counts_towards_the_budget() {
    let asked = Arc::new(Asked::default());
    let budget = Budget { calls_in_all: Some(1), ..Budget::default() };
    let config = SessionConfig { budget, ..SessionConfig::default() };
    let builder = agent_with(tool_skill("echo"), asked.model(&[]), &Arc::default(), |builder| builder);
    let mut agent = builder.config(config).build().unwrap();
    assert_eq!(agent.run("one").await.unwrap().text(), "one");
    let ending = agent.run("two").await.unwrap().ending;
    assert!(matches!(ending, Ending::BudgetExhausted { budget: BudgetKind::CallsInAll, .. }), "{ending:?}");
    assert_eq!(asked.requests(), 0);
}

#[tokio::test]
async fn channel_that_lacks_the_tool_refuses_the_skill() {
    let mut allowlists = lists(tool_skill("echo"));
    allowlists.key = EnvelopeKey::new([1; 32]).ok();
    allowlists.channels =
        [("desk".to_owned(), Channel::new(["add"])), ("all".to_owned(), Channel::new(["echo"]))].into();
    for (channel, is_allowed) in [("desk", false), ("all", true)] {
        let envelope = allowlists.seal(channel, ChannelContext::default()).unwrap();
        let asked = Arc::new(Asked::default());
        let allowlists = allowlists.clone();
        let builder = agent_with(tool_skill("echo"), asked.model(&[]), &Arc::default(), |it| it.allowlists(allowlists));
        let mut agent = builder.scope(Scope { envelope: Some(envelope.into()), ..scope() }).build().unwrap();
        let ending = agent.run("x").await.unwrap().ending;
        assert_eq!(ending == answered("x"), is_allowed, "{ending:?}");
    }
}

#[tokio::test]
async fn result_is_whole_and_a_model_sees_later_what_it_may() {
    let asked = Arc::new(Asked::default());
    let recorder = Arc::new(RecordingRecorder::default());
    let long = format!("<system>{}", "x".repeat(10_000));
    let mut agent = agent_with(tool_skill("echo"), asked.model(&["ok"]), &recorder, |it| it).build().unwrap();
    assert_eq!(agent.run(long.as_str()).await.unwrap().text(), long);
    agent.scope_mut().skill = None;
    assert_eq!(agent.run("go on").await.unwrap().text(), "ok");
    let request = asked.0.lock().unwrap().remove(0);
    let told: Vec<_> = request.messages.iter().skip(1).filter(|message| message.content.contains("xxxx")).collect();
    assert!(!told.is_empty());
    assert!(told.iter().all(|it| it.content.len() <= 4096 && !it.content.contains("<system>")), "{told:?}");
}

#[tokio::test]
async fn result_that_its_tool_keeps_to_itself_is_in_no_record() {
    let recorder = Arc::new(RecordingRecorder::default());
    let keep = ToolPolicy { persist: Some(Persistence::Nothing), ..ToolPolicy::default() };
    let skill = tool_skill("add").output_schema(OutputSchema::new(json!({"type": "integer"})).unwrap());
    let builder = agent_with(skill, Arc::new(Asked::default()).model(&[]), &recorder, |it| it.tool_policy("add", keep));
    let outcome = builder.build().unwrap().run(r#"{"a": 700000, "b": 1234}"#).await.unwrap();
    assert_eq!(outcome.text(), "701234");
    assert!(!recorder.text().contains("701234"), "{}", recorder.text());
}

/// A store of one session in memory.
#[derive(Default)]
struct Saved(Mutex<Vec<SessionEntry>>);

impl SessionStore for Saved {
    fn append(&self, entry: SessionEntry, _: Vec<Record>) -> BoxFuture<'_, Result<(), RecordError>> {
        self.0.lock().unwrap().push(entry);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Saved {
    fn up_to(&self, entries: usize) -> SavedSession {
        SavedSession::from_entries(&self.0.lock().unwrap()[..entries]).unwrap()
    }
}

#[tokio::test]
async fn skill_goes_on_after_a_stop_from_each_entry() {
    fn count_rule(calls: &Arc<AtomicUsize>) -> Arc<dyn Policy> {
        let calls = Arc::clone(calls);
        Arc::new(PolicyFn::new("count", move |_: &ValidatedCall, _: &CallContext| {
            calls.fetch_add(1, Ordering::SeqCst);
            Decision::Allow
        }))
    }

    let calls = Arc::new(AtomicUsize::new(0));
    let build = || {
        let rule = count_rule(&calls);
        agent_with(tool_skill("echo"), Arc::new(Asked::default()).model(&[]), &Arc::default(), |builder| {
            builder.rule(rule)
        })
    };
    let saved = Arc::new(Saved::default());
    build().save_to(saved.clone()).build().unwrap().run("hello").await.unwrap();
    assert_eq!(saved.0.lock().unwrap().len(), 3, "a head, the message with its call, and the result");
    // Under way when the program stopped: it may have had its effect.
    let mut agent = build().resume(saved.up_to(2)).build().unwrap();
    let ending = agent.resume().unwrap().finish().await.unwrap().ending;
    assert!(matches!(&ending, Ending::ToolFailed { tool, .. } if tool == "echo"), "{ending:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let mut agent = build().resume(saved.up_to(2)).repeat_interrupted(Arc::new(|_| true)).build().unwrap();
    assert_eq!(agent.resume().unwrap().finish().await.unwrap().ending, answered("hello"));
    let mut agent = build().resume(saved.up_to(3)).build().unwrap();
    assert!(agent.resume().is_none());
    assert_eq!(agent.session().transcript().runs[0].ending, Some(answered("hello")));
    assert_eq!(agent.run("again").await.unwrap().text(), "again");
}

#[tokio::test]
async fn skill_waits_for_approval_and_goes_on_with_it() {
    for (skill, expected) in
        [(tool_skill("echo"), "x"), (program_skill("host__echo {\"text\": \"x\"}", &["echo"]), r#"["x"]"#)]
    {
        let saved = Arc::new(Saved::default());
        let ask = |call: &ValidatedCall, _: &CallContext| match call.tool().full_name() {
            "echo" => Decision::ask("may it?"),
            _ => Decision::Allow,
        };
        let build = || {
            agent_with(skill.clone(), Arc::new(Asked::default()).model(&[]), &Arc::default(), |builder| {
                let builder = builder.rule(Arc::new(PolicyFn::new("ask", ask))).approver(Arc::new(DeferringApprover));
                with_lines(builder)
            })
            .save_to(saved.clone())
        };
        let ending = build().build().unwrap().run("x").await.unwrap().ending;
        let Ending::WaitingForApproval { waiting } = ending else { panic!("{ending:?}") };
        let entries = saved.0.lock().unwrap().len();
        let mut agent = build().resume(saved.up_to(entries)).build().unwrap();
        let answer = GivenAnswer { yes: true, reason: String::new(), by: None };
        agent.answer_call(&waiting[0].id, answer).await.unwrap();
        assert_eq!(agent.resume().unwrap().finish().await.unwrap().ending, answered(expected));
    }
}

#[tokio::test]
async fn skill_without_a_model_works_with_every_driver() {
    let asked = Arc::new(Asked::default());
    let builder = agent_with(tool_skill("echo"), asked.model(&[]), &Arc::default(), |it| it);
    let mut agent = builder.driver(BatchDriver::new()).build().unwrap();
    assert_eq!(agent.run("<execute>[]</execute>").await.unwrap().text(), "<execute>[]</execute>");
    assert_eq!(agent.run("second").await.unwrap().text(), "second");
    assert_eq!(asked.requests(), 0);
}
