//! The agent that a host builds: its defaults, and the settings that replace them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fumehood::agent::agent::{Agent, Outcome};
use fumehood::agent::allowlist::{Allowlists, Skill};
use fumehood::agent::batch::BatchDriver;
use fumehood::agent::execution::Status;
use fumehood::agent::executor::{BatchOutcome, Scope, ToolExecutor};
use fumehood::agent::memory::InMemoryStore;
use fumehood::agent::react::ReactDriver;
use fumehood::agent::registry::{BuiltIn, BuiltInError, BuiltIns};
use fumehood::chat::{Model, ModelError, Request, Response, Role, ToolIntent, ToolSpec};
use fumehood::event_log::{Filter, Options, Reader};
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::policy::{Answer, Approver, Decision, PolicyFn, Question};
use fumehood::{AgentBuilder, AgentError, CallContext, Host, Load, ValidatedCall};

const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../example-tools/dist/calculator.wasm");
const ADD: &str = r#"{"a": 3, "b": 5}"#;

fn empty() -> Host {
    Host::builder().concurrency(4).memory_ceiling(64 << 20).build().unwrap()
}

async fn host() -> Host {
    let host = empty();
    host.load(Load::path(Path::new(CALCULATOR))).await.unwrap();
    host
}

type OfferedNames = Arc<Mutex<Vec<Vec<String>>>>;

/// Returns a model that requests this call in its first answer to a message, and repeats the result in the next one.
/// The second value collects the names of the tools that it was offered.
fn calls(name: &str, arguments: &str) -> (Arc<dyn Model>, OfferedNames) {
    let offered = OfferedNames::default();
    let seen = Arc::clone(&offered);
    let name = name.to_owned();
    let arguments = arguments.to_owned();
    let model = move |request: &Request| -> Result<Response, ModelError> {
        seen.lock().unwrap().push(request.tools.iter().map(|tool| tool.name.clone()).collect());
        let last = request.messages.last().unwrap();
        Ok(match last.role {
            Role::User => {
                let name = name.clone();
                let arguments = arguments.clone();
                Response::calls(vec![ToolIntent { id: "c".to_owned(), name, arguments }])
            }
            _ => Response::text(last.content.clone()),
        })
    };
    (Arc::new(model), offered)
}

async fn status(agent: &mut Agent) -> (Status, Outcome) {
    let outcome = agent.run("go").await.unwrap();
    let status = outcome.run.executions().next().unwrap().status;
    (status, outcome)
}

#[tokio::test]
async fn the_native_driver_and_the_pipeline_are_there_unless_others_are_given() {
    let host = host().await;
    let (model, offered) = calls("calculator__add", ADD);
    let mut agent = host.agent(Arc::clone(&model)).allow_everything().build().unwrap();
    let (status, outcome) = status(&mut agent).await;
    assert_eq!((status, outcome.text()), (Status::Ok, r#"{"result":8}"#));
    assert!(offered.lock().unwrap()[0].contains(&"calculator__multiply".to_owned()));

    let decision = r#"{"type": "call_tool", "tool": "calculator__multiply", "args": {"a": 2, "b": 5}}"#;
    let answer = r#"{"type": "final_answer", "answer": "done"}"#;
    let model = ScriptedModel::new(vec![ScriptedReply::text(decision), ScriptedReply::text(answer)]);
    let agent = host.agent(Arc::new(model)).allow_everything().driver(ReactDriver::default());
    let mut agent = agent.build().unwrap();
    let outcome = agent.run("go").await.unwrap();
    assert_eq!(outcome.text(), "done");
    assert_eq!(outcome.run.executions().next().unwrap().name(), "calculator__multiply");
}

#[tokio::test]
async fn nothing_may_be_called_until_it_is_allowed() {
    let host = host().await;
    let (model, offered) = calls("calculator__add", ADD);
    let mut agent = host.agent(Arc::clone(&model)).build().unwrap();
    assert_eq!(status(&mut agent).await.0, Status::RejectedAllowlist);
    let mut agent = host.agent(Arc::clone(&model)).allow(["calculator__add"]).build().unwrap();
    assert_eq!(status(&mut agent).await.0, Status::Ok);
    let skill = Skill::new().component_tool("calculator__multiply");
    let mut agent = host.agent(model).allow_everything().skill("times", skill).use_skill("times").build().unwrap();
    assert_eq!(status(&mut agent).await.0, Status::RejectedAllowlist);
    let expected: [&[&str]; 3] = [&[], &["calculator__add"], &["calculator__multiply"]];
    let offered = offered.lock().unwrap();
    let first: Vec<_> = offered.iter().step_by(2).map(|names| names.join(" ")).collect();
    assert_eq!(first, expected.map(|names| names.join(" ")));
}

#[tokio::test]
async fn names_of_nothing_are_refused_at_once() {
    let host = host().await;
    let model = || calls("x", "{}").0;
    check_error(host.agent(model()).allow(["calculator__ad"]).build(), "the allowed tool 'calculator__ad'");
    check_error(host.agent(model()).use_skill("maths").build(), "unknown skill 'maths'");
    let skill = Skill::new().component_tool("nothing");
    check_error(host.agent(model()).skill("s", skill).build(), "the skill 's' names the tool 'nothing'");
    check_error(host.agent(model()).event_log("/dev/null/events.db").build(), "cannot open the event log");
}

fn check_error(built: Result<Agent, AgentError>, expected: &str) {
    let error = built.err().unwrap();
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(&error) {
        text = format!("{text}: {source}");
    }
    assert!(text.contains(expected), "{text}");
}

#[tokio::test]
async fn tools_that_are_loaded_and_unloaded_later_come_and_go() {
    let host = empty();
    let (model, offered) = calls("calculator__add", ADD);
    let mut agent = host.agent(model).allow_everything().build().unwrap();
    assert_eq!(status(&mut agent).await.0, Status::RejectedNotFound);
    host.load(Load::path(Path::new(CALCULATOR))).await.unwrap();
    assert_eq!(status(&mut agent).await.0, Status::Ok);
    host.unload("calculator");
    assert_eq!(status(&mut agent).await.0, Status::RejectedNotFound);
    let counts: Vec<_> = offered.lock().unwrap().iter().map(|names| names.is_empty()).collect();
    assert_eq!(counts, [true, true, false, false, true, true]);
}

#[tokio::test]
async fn what_happens_is_in_the_file_that_was_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.db");
    let (model, _) = calls("calculator__add", ADD);
    let agent = host().await.agent(model).allow_everything().actor("ann").event_log(&path);
    let mut agent = agent.build().unwrap();
    agent.run("go").await.unwrap();
    agent.close().await.unwrap();
    let stored = Reader::open(&path, &Options::default()).unwrap().query(&Filter::default()).unwrap();
    let kinds: Vec<_> = stored.iter().map(|stored| stored.record.kind.as_str()).collect();
    for kind in ["session_started", "verdict", "tool_started", "tool_result", "session_finished"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    assert!(stored.iter().all(|stored| stored.record.actor.as_deref() == Some("ann")));
}

/// An approver that allows calls and denies everything else.
struct CallApprover;

impl Approver for CallApprover {
    fn ask<'a>(&'a self, question: Question<'a>) -> fumehood::boxed::BoxFuture<'a, Answer> {
        let answer = match question {
            Question::Call(_) => Answer::Allow,
            Question::Budget(_) => Answer::no(),
        };
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::test]
async fn rules_people_memory_and_functions_are_a_line_each() {
    let host = host().await;
    let greet = |_: BTreeMap<String, String>, _| async { Ok::<_, BuiltInError>("hello".to_owned()) };
    let greet = BuiltIn::new("greet", "Greets.", greet).unwrap();
    let tools = Arc::new(BuiltIns::default());
    tools.register(greet).unwrap();
    let ask = PolicyFn::new("ask", |_: &ValidatedCall, _: &CallContext| Decision::ask("may it?"));
    let (model, offered) = calls("greet", "{}");
    let agent = host.agent(model).allow(["greet"]).built_ins(tools).memory(Arc::new(InMemoryStore::default()));
    let agent = agent.pipeline(|pipeline| pipeline.rule(Arc::new(ask))).approver(Arc::new(CallApprover));
    let mut agent = agent.build().unwrap();
    let (status, outcome) = status(&mut agent).await;
    assert_eq!((status, outcome.text()), (Status::Ok, "hello"));
    assert_eq!(offered.lock().unwrap()[0], ["greet", "memory_read", "memory_search", "memory_write"]);
}

#[tokio::test]
async fn a_whole_set_of_lists_replaces_what_was_allowed() {
    let host = host().await;
    let (model, _) = calls("calculator__add", ADD);
    let agent = host.agent(model).allow_everything().allowlists(Allowlists::default());
    assert_eq!(status(&mut agent.build().unwrap()).await.0, Status::RejectedAllowlist);
}

/// An executor that runs nothing and records the calls that it was asked to run.
#[derive(Default)]
struct RecordingExecutor(Mutex<Vec<(String, String)>>);

impl ToolExecutor for RecordingExecutor {
    fn specs(&self, _: &Scope) -> Vec<ToolSpec> {
        Vec::new()
    }

    fn execute<'a>(&'a self, calls: Vec<ToolIntent>, _: &'a Scope) -> fumehood::boxed::BoxFuture<'a, BatchOutcome> {
        self.0.lock().unwrap().extend(calls.into_iter().map(|call| (call.name, call.arguments)));
        Box::pin(std::future::ready(BatchOutcome::new(Vec::new(), None)))
    }
}

#[tokio::test]
async fn there_is_no_way_to_a_tool_but_through_the_executor() {
    let host = host().await;
    let mut events = host.subscribe();
    let executor = Arc::new(RecordingExecutor::default());
    let (model, _) = calls("calculator__add", ADD);
    let agent = host.agent(model).allow_everything().executor(Arc::clone(&executor) as Arc<dyn ToolExecutor>);
    agent.build().unwrap().run("go").await.unwrap();
    assert_eq!(executor.0.lock().unwrap()[0], ("calculator__add".to_owned(), ADD.to_owned()));
    assert!(events.try_next().is_none(), "no guest ran");
}

#[tokio::test]
async fn each_call_of_an_answer_gets_one_message_and_a_text_ends_the_loop() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&requests);
    let model = move |request: &Request| -> Result<Response, ModelError> {
        let mut kept = kept.lock().unwrap();
        kept.push(request.clone());
        Ok(match kept.len() {
            1 => Response::calls(vec![intent("a", "add"), intent("b", "multiply")]),
            _ => Response::text("8 and 15"),
        })
    };
    let mut agent = host().await.agent(Arc::new(model)).allow_everything().build().unwrap();
    assert_eq!(agent.run("3 and 5").await.unwrap().text(), "8 and 15");
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 2);
    let tool: Vec<_> = requests[1].messages.iter().filter(|message| message.role == Role::Tool).collect();
    let told: Vec<_> = tool.iter().map(|it| (it.tool_call_id.as_deref().unwrap(), it.content.as_str())).collect();
    assert_eq!(told, [("a", r#"{"result":8}"#), ("b", r#"{"result":15}"#)]);
}

fn intent(id: &str, name: &str) -> ToolIntent {
    ToolIntent { id: id.to_owned(), name: format!("calculator__{name}"), arguments: ADD.to_owned() }
}

#[tokio::test]
async fn the_prompt_names_the_tools_and_the_users_words_are_verbatim() {
    let said = "  What is (3 + 5) * 2? <system>\n";
    let capture = async |with: fn(AgentBuilder) -> AgentBuilder, answer: &'static str| {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let model = move |request: &Request| -> Result<Response, ModelError> {
            kept.lock().unwrap().push(request.clone());
            Ok(Response::text(answer))
        };
        let agent = with(host().await.agent(Arc::new(model)).allow_everything().prompt("You calculate."));
        agent.build().unwrap().run(said).await.unwrap();
        asked.lock().unwrap().remove(0)
    };
    let native = capture(|agent| agent, "16").await;
    assert!(native.tools.iter().any(|tool| tool.name == "calculator__add"));
    assert!(native.messages[0].content.contains("You calculate."));
    let react = capture(|agent| agent.driver(ReactDriver::default()), r#"{"type":"final_answer","answer":"16"}"#);
    let batch = capture(|agent| agent.driver(BatchDriver::new()), "16");
    for request in [native, react.await, batch.await] {
        let user = request.messages.iter().find(|message| message.role == Role::User).unwrap();
        assert_eq!(user.content, said);
        let system = request.messages.iter().filter(|message| message.role == Role::System);
        let text: String = system.map(|message| message.content.as_str()).collect();
        assert_eq!(text.contains("calculator__add"), request.tools.is_empty(), "{text}");
    }
}

#[tokio::test]
async fn a_channel_in_use_is_all_that_there_is() {
    let host = host().await;
    let (model, offered) = calls("calculator__add", ADD);
    let on = |channel: &str| {
        let builder = host.agent(Arc::clone(&model)).allow_everything().scope(Scope::default());
        builder.channel("phone", ["calculator__multiply"]).channel("desk", ["calculator__add"]).use_channel(channel)
    };
    let (refused, outcome) = status(&mut on("phone").build().unwrap()).await;
    assert_eq!(refused, Status::RejectedAllowlist);
    let words = "[error: tool 'calculator__add' is not permitted on this channel]";
    assert!(outcome.text().ends_with(words), "{}", outcome.text());
    assert_eq!(offered.lock().unwrap()[0], ["calculator__multiply"]);
    assert_eq!(status(&mut on("desk").build().unwrap()).await.0, Status::Ok);
    assert!(matches!(on("fax").build(), Err(AgentError::UnknownChannel(name)) if name == "fax"));
    let misspelt = host.agent(model).channel("phone", ["calculator__multipy"]).build();
    assert!(misspelt.is_err_and(|error| error.to_string().contains("cannot set up the pipeline of calls")));
}
