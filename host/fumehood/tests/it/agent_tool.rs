//! An agent as a tool of another one: its budget, its records, and its end.

use std::sync::{Arc, Mutex};

use fumehood::agent::agent::{AgentTool, Outcome, ParentSession};
use fumehood::agent::budget::{Budget, BudgetUsage};
use fumehood::agent::registry::BuiltIns;
use fumehood::agent::transcript::Ending;
use fumehood::boxed::BoxFuture;
use fumehood::chat::Usage;
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::record::{Durability, Record, RecordError, RecordKind, Recorder};
use fumehood::{ErrorKind, Host, Load};

#[derive(Default)]
struct Records(Mutex<Vec<Record>>);

impl Recorder for Records {
    fn record(&self, record: Record, _: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        self.0.lock().unwrap().push(record);
        Box::pin(std::future::ready(Ok(())))
    }
}

async fn host() -> Host {
    let host = Host::builder().build().unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist");
    host.load(Load::path(format!("{folder}/calculator.wasm"))).await.unwrap();
    host
}

fn add() -> ScriptedReply {
    ScriptedReply::call("calculator__add", r#"{"a": 3, "b": 5}"#).usage(Usage::new(100, 10))
}

fn says(text: &str) -> ScriptedReply {
    ScriptedReply::text(text).usage(Usage::new(100, 10))
}

/// Returns a tool whose agents have a model with this script.
fn helper(host: &Host, script: impl Fn() -> Vec<ScriptedReply> + Send + Sync + 'static) -> Arc<BuiltIns> {
    let host = host.clone();
    let tools = BuiltIns::default();
    let make = move |parent: &ParentSession| {
        let agent = host.agent(Arc::new(ScriptedModel::new(script()))).allow_everything();
        agent.child_of(parent).build().map_err(|error| error.to_string())
    };
    tools.register_tool(Arc::new(AgentTool::new("helper", "Adds", make).unwrap())).unwrap();
    Arc::new(tools)
}

/// Gives the helper a task from an agent with this budget. Also returns what the agent used.
async fn delegate(
    host: &Host,
    tools: Arc<BuiltIns>,
    records: &Arc<Records>,
    budget: Budget,
    last: ScriptedReply,
) -> (Outcome, BudgetUsage) {
    let task = ScriptedReply::call("helper", r#"{"task": "3 + 5"}"#).usage(Usage::new(50, 5));
    let agent = host.agent(Arc::new(ScriptedModel::new(vec![task, last]))).built_ins(tools).allow_everything();
    let mut agent = agent.budget(budget).actor("ada").recorder(records.clone()).build().unwrap();
    // An agent is run on any thread.
    tokio::spawn(async move {
        let outcome = agent.run("go").await.unwrap();
        (outcome, agent.session().budget_usage().clone())
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn answer_of_an_agent_is_the_result_and_its_use_counts() {
    let host = host().await;
    let records = Arc::new(Records::default());
    let tools = helper(&host, || vec![add(), says("It is 8.")]);
    let last = says("done").expect_text("It is 8.");
    let (outcome, used) = delegate(&host, tools, &records, Budget::default(), last).await;
    assert_eq!(outcome.text(), "done");
    assert_eq!((used.calls_in_all, used.usage), (2, Usage::new(350, 35)), "both agents together");
    assert!(used.fuel > 0);

    let records = records.0.lock().unwrap();
    let call = records.iter().find(|record| record.kind == RecordKind::ToolStarted).unwrap();
    assert_eq!(call.tool.as_deref(), Some("helper"));
    let child = |record: &&Record| record.session != call.session;
    let begun = records.iter().filter(child).find(|record| record.kind == RecordKind::SessionStarted).unwrap();
    assert_eq!(begun.body["parent_session"], call.session.as_str());
    assert_eq!(begun.actor.as_deref(), Some("ada"));
    let inner = records.iter().filter(child).find(|record| record.kind == RecordKind::ToolStarted).unwrap();
    assert_eq!(inner.tool.as_deref(), Some("calculator__add"));
    assert_eq!(inner.body["parent_session"], call.session.as_str());
}

#[tokio::test]
async fn agent_has_no_more_than_what_is_left() {
    let host = host().await;
    let records = Arc::new(Records::default());
    let tools = helper(&host, || vec![add(), says("It is 8.")]);
    let tokens = Budget { tokens_in: Some(140), ..Budget::default() };
    let (outcome, used) = delegate(&host, tools, &records, tokens, says("done")).await;
    let Some(error) = outcome.run.executions().next().and_then(|call| call.error()) else { panic!("{outcome:?}") };
    assert_eq!(error.kind, ErrorKind::BudgetExhausted, "{error}");
    assert!(matches!(outcome.ending, Ending::BudgetExhausted { .. }), "{:?}", outcome.ending);
    assert_eq!(used.usage, Usage::new(150, 15), "the request that was answered last may use more than was left");

    let tools = helper(&host, || vec![add(), says("I could not.").expect_text("budget exhausted")]);
    let calls = Budget { calls_in_all: Some(1), ..Budget::default() };
    let (outcome, used) = delegate(&host, tools, &records, calls, says("done").expect_text("I could not.")).await;
    assert_eq!((outcome.text(), used.calls_in_all), ("done", 1));
}

#[tokio::test]
async fn agent_that_cannot_answer_is_a_failed_call() {
    let host = host().await;
    let records = Arc::new(Records::default());
    let tools = helper(&host, Vec::new);
    let (outcome, _) =
        delegate(&host, tools, &records, Budget::default(), says("done").expect_text("model failed")).await;
    assert_eq!(outcome.text(), "done");
    let tools = BuiltIns::default();
    let broken = AgentTool::new("helper", "Adds", |_| Err("no model".to_owned())).unwrap();
    tools.register_tool(Arc::new(broken)).unwrap();
    let last = says("done").expect_text("cannot build the agent: no model");
    let (outcome, _) = delegate(&host, Arc::new(tools), &records, Budget::default(), last).await;
    assert_eq!(outcome.text(), "done");
}
