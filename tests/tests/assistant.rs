//! The agent that a host makes: what it does unless told otherwise, and what replaces what.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fumehood::agent::agent::{Agent, Outcome};
use fumehood::agent::allowlist::{Allowlists, Skill};
use fumehood::agent::execution::Status;
use fumehood::agent::guardrail::{Proposed, RuleFn, Verdict};
use fumehood::agent::human::{Answer, Human, Question};
use fumehood::agent::memory::InMemory;
use fumehood::agent::registry::{BuiltIn, BuiltIns, Failure};
use fumehood::agent::scripted::ScriptedDriver;
use fumehood::chat::{Model, ModelError, Request, Response, ToolIntent};
use fumehood::event_log::{Filter, Options, Reader};
use fumehood::{AssistantError, Host, Load};

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

type Offered = Arc<Mutex<Vec<Vec<String>>>>;

/// Asks for this call in its first answer to a message, says what came of it in the next one, and keeps the names of
/// the tools that it was offered.
fn calls(name: &str, arguments: &str) -> (Arc<dyn Model>, Offered) {
    let offered = Offered::default();
    let (seen, name, arguments) = (Arc::clone(&offered), name.to_owned(), arguments.to_owned());
    let model = move |request: &Request| -> Result<Response, ModelError> {
        seen.lock().unwrap().push(request.tools.iter().map(|tool| tool.name.clone()).collect());
        let last = request.messages.last().unwrap();
        Ok(match last.role {
            fumehood::chat::Role::User => {
                let (name, arguments) = (name.clone(), arguments.clone());
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
async fn i6_the_native_driver_and_the_pipeline_are_there_unless_others_are_given() {
    let host = host().await;
    let (model, offered) = calls("calculator__add", ADD);
    let mut agent = host.agent(Arc::clone(&model)).allow_everything().build().unwrap();
    let (status, outcome) = status(&mut agent).await;
    assert_eq!((status, outcome.text()), (Status::Ok, r#"{"result":8}"#));
    assert!(offered.lock().unwrap()[0].contains(&"calculator__multiply".to_owned()));

    let driver = ScriptedDriver::new().call("calculator__multiply", r#"{"a": 2, "b": 5}"#).answer("done");
    let mut agent = host.agent(model).allow_everything().with_driver(driver).build().unwrap();
    let outcome = agent.run("go").await.unwrap();
    assert_eq!(outcome.text(), "done");
    assert_eq!(outcome.run.executions().next().unwrap().name(), "calculator__multiply");
}

#[tokio::test]
async fn l4_nothing_may_be_called_until_it_is_allowed() {
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
async fn k9_names_of_nothing_are_refused_at_once() {
    let host = host().await;
    let model = || calls("x", "{}").0;
    let check = |built: Result<Agent, AssistantError>, expected: &str| {
        let error = built.err().unwrap();
        let mut text = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            text = format!("{text}: {source}");
        }
        assert!(text.contains(expected), "{text}");
    };
    check(host.agent(model()).allow(["calculator__ad"]).build(), "'calculator__ad' is to be allowed");
    check(host.agent(model()).use_skill("maths").build(), "the skill 'maths'");
    let skill = Skill::new().component_tool("nothing");
    check(host.agent(model()).skill("s", skill).build(), "the skill 's' names the tool 'nothing'");
    check(host.agent(model()).with_event_log("/dev/null/events.db").build(), "the event log cannot be opened");
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
    let agent = host().await.agent(model).allow_everything().with_actor("ann").with_event_log(&path);
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

/// Says yes to calls and no to everything else.
struct CallsOnly;

impl Human for CallsOnly {
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
    let greet = |_: BTreeMap<String, String>, _| async { Ok::<_, Failure>("hello".to_owned()) };
    let greet = BuiltIn::new("greet", "Greets.", greet).unwrap();
    let tools = Arc::new(BuiltIns::default());
    tools.register(greet).unwrap();
    let ask = RuleFn::new("ask", |_: &Proposed| Verdict::Ask { question: "may it?".to_owned() });
    let (model, offered) = calls("greet", "{}");
    let agent = host.agent(model).allow(["greet"]).with_built_ins(tools).with_memory(Arc::new(InMemory::default()));
    let agent = agent.pipeline(|pipeline| pipeline.rule(Arc::new(ask))).with_human(Arc::new(CallsOnly));
    let mut agent = agent.build().unwrap();
    let (status, outcome) = status(&mut agent).await;
    assert_eq!((status, outcome.text()), (Status::Ok, "hello"));
    assert_eq!(offered.lock().unwrap()[0], ["greet", "memory_read", "memory_search", "memory_write"]);
}

#[tokio::test]
async fn l5_a_whole_set_of_lists_replaces_what_was_allowed() {
    let host = host().await;
    let (model, _) = calls("calculator__add", ADD);
    let agent = host.agent(model).allow_everything().allowlists(Allowlists::default());
    assert_eq!(status(&mut agent.build().unwrap()).await.0, Status::RejectedAllowlist);
}
