//! Tests of the agent, with a scripted model, a small executor and tokio's clock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::{Delta, DeltaSink, Model, ModelError, ModelFailure, Request, Response, ToolIntent, ToolSpec};
use fumehood_core::record::{Durability, NullRecorder, Record, RecordError, RecordKind, Recorder};
use fumehood_core::time::Timestamp;
use tokio::time::Instant;

use super::{Agent, AgentEvent, BuildError, LoopBuilder, RunError, Tap};
use crate::drivers::driver::DecisionFault;
use crate::execution::Status;
use crate::executor::{BatchOutcome, Scope, ToolExecutor};
use crate::session::budget::{BudgetKind, TenantFuel};
use crate::session::tests::world::{Plain, call, calls, execution, session, spec};
use crate::session::transcript::Ending;
use crate::session::{SessionConfig, replay};

mod deferred;
mod golden;
mod programs;
mod saved;
mod time;

/// A recorder in memory. It fails from the record `fail_from` on.
#[derive(Default)]
struct Memory {
    records: Mutex<Vec<Record>>,
    fail_from: Option<usize>,
}

impl Recorder for Memory {
    fn record(&self, record: Record, _: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        let mut records = self.records.lock().unwrap();
        let full = self.fail_from.is_some_and(|limit| records.len() >= limit);
        records.push(record);
        Box::pin(std::future::ready(if full { Err(RecordError("the disk is full".to_owned())) } else { Ok(()) }))
    }
}

impl Memory {
    fn kinds(&self) -> Vec<&'static str> {
        self.records.lock().unwrap().iter().map(|record| record.kind.as_str()).collect()
    }
}

/// An executor that answers each batch after a delay.
#[derive(Default)]
struct Tools {
    takes: Duration,
    bound: AtomicUsize,
    scopes: Mutex<Vec<Scope>>,
}

impl ToolExecutor for Tools {
    fn specs(&self, _: &Scope) -> Vec<ToolSpec> {
        self.bound.fetch_add(1, Ordering::Relaxed);
        vec![spec("add")]
    }

    fn execute<'a>(&'a self, calls: Vec<ToolIntent>, scope: &'a Scope) -> BoxFuture<'a, BatchOutcome> {
        Box::pin(async move {
            self.scopes.lock().unwrap().push(scope.clone());
            tokio::time::sleep(self.takes).await;
            let executions = calls.iter().map(|call| execution(call, Status::Ok, Timestamp(0))).collect();
            BatchOutcome::new(executions, None)
        })
    }
}

/// A model that writes two words, and gives the next of these answers after a delay.
struct Script {
    takes: Duration,
    answers: Mutex<Vec<Result<Response, ModelError>>>,
}

impl Model for Script {
    fn chat<'a>(
        &'a self,
        _: &'a Request,
        deltas: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Response, ModelError>> {
        Box::pin(async move {
            deltas.delta(Delta::Text("so far".to_owned()));
            tokio::time::sleep(self.takes).await;
            self.answers.lock().unwrap().remove(0)
        })
    }
}

fn script(takes: Duration, answers: Vec<Response>) -> Arc<dyn Model> {
    Arc::new(Script { takes, answers: Mutex::new(answers.into_iter().map(Ok).collect()) })
}

/// Creates a builder with a clock that follows tokio's, so that paused time is paused for both.
fn agent(model: Arc<dyn Model>, tools: &Arc<Tools>, memory: &Arc<Memory>) -> LoopBuilder {
    let began = Instant::now();
    let clock = move || Timestamp(1_000).saturating_add(began.elapsed());
    let config = SessionConfig { id: "s1".to_owned(), ..SessionConfig::default() };
    Agent::builder(model)
        .driver(Plain::default())
        .executor(tools.clone())
        .recorder(memory.clone())
        .clock(Arc::new(clock))
        .config(config)
}

const SOON: Duration = Duration::from_millis(1);

#[test]
fn neither_driver_nor_executor_can_be_left_out() {
    fn model() -> Arc<dyn Model> {
        script(SOON, vec![])
    }

    assert_eq!(Agent::builder(model()).build().err(), Some(BuildError::NoDriver));
    let half = Agent::builder(model()).driver(Plain::default());
    assert_eq!(half.build().err(), Some(BuildError::NoExecutor));
}

#[test]
fn parts_replace_each_other_and_a_session_gets_a_name() {
    fn build(tools: &Arc<Tools>) -> Agent {
        let builder = Agent::builder(script(SOON, vec![])).driver(Plain::default()).driver(Plain::default());
        builder.executor(tools.clone()).executor(tools.clone()).build().unwrap()
    }

    let tools = Arc::new(Tools::default());
    let one = build(&tools);
    let other = build(&tools);
    assert!(!one.session().config().id.is_empty());
    assert_ne!(one.session().config().id, other.session().config().id);
}

#[tokio::test(start_paused = true)]
async fn the_executors_tools_are_bound_once_for_each_run_and_records_follow_from_each_other() {
    let tools = Arc::new(Tools::default());
    let memory = Arc::new(Memory::default());
    let answers = vec![calls(1, 1), Response::text("first"), Response::text("second")];
    let mut agent = agent(script(SOON, answers), &tools, &memory).build().unwrap();
    assert_eq!(agent.run("one").await.unwrap().text(), "first");
    assert_eq!(agent.run("two").await.unwrap().text(), "second");
    assert_eq!(tools.bound.load(Ordering::Relaxed), 2);
    agent.close().await.unwrap();

    let turn = ["model_asked", "model_answered", "step_finished"];
    let expected = [&["session_started", "user_message"], &turn[..], &turn[..], &["user_message"], &turn[..]].concat();
    assert_eq!(memory.kinds(), [&expected[..], &["session_finished"]].concat());
    let records = memory.records.lock().unwrap();
    for (n, record) in records.iter().enumerate() {
        assert_eq!(record.id, format!("s1-{}", n + 1));
        assert_eq!(record.parent, n.checked_sub(1).map(|n| records[n].id.clone()));
    }
    assert_eq!(records[7].body["ending"]["ending"], "answered");
    let scope = &tools.scopes.lock().unwrap()[0];
    assert_eq!((scope.session.as_str(), scope.execution.as_str(), scope.step), ("s1", "s1/1", 1));
    assert_eq!(scope.cause.as_deref(), Some(records[3].id.as_str()));
    assert_eq!(records[3].kind, RecordKind::ModelAnswered);
}

#[tokio::test(start_paused = true)]
async fn record_of_a_batch_has_its_counts() {
    let tools = Arc::new(Tools::default());
    let memory = Arc::new(Memory::default());
    let mut agent = agent(script(SOON, vec![calls(1, 3), Response::text("done")]), &tools, &memory).build().unwrap();
    agent.run("one").await.unwrap();
    let records = memory.records.lock().unwrap();
    let steps = records.iter().filter(|record| record.kind == RecordKind::StepFinished);
    let counts: Vec<_> = steps.map(|record| record.body.get("batch").cloned()).collect();
    let expected = serde_json::json!({"tools_executed": 3, "success_count": 3, "failure_count": 0});
    assert_eq!(counts, [Some(expected), None]);
}

#[test]
fn makes_records_for_a_recorder_or_a_subscriber() {
    assert!(Tap::new(Arc::new(Memory::default())).is_enabled());
    let tap = Tap::new(Arc::new(NullRecorder));
    assert!(!tap.is_enabled());
    tap.wiretap(|_| {});
    assert!(tap.is_enabled());
}

#[tokio::test(start_paused = true)]
async fn a_wiretap_sees_every_event_and_on_record_only_its_own() {
    let tools = Arc::new(Tools::default());
    let memory = Arc::new(Memory::default());
    let mut agent = agent(script(SOON, vec![Response::text("VALIDATION:")]), &tools, &memory).build().unwrap();
    let all = Arc::new(Mutex::new(Vec::new()));
    let some = Arc::new(Mutex::new(Vec::new()));
    let into = all.clone();
    let into_some = some.clone();
    agent.tap().wiretap(move |event| into.lock().unwrap().push(name(event)));
    agent.tap().on_record(RecordKind::DecisionFailed, move |record| into_some.lock().unwrap().push(record.clone()));
    let mut slow = agent.tap().subscribe(2);
    agent.run("one").await.unwrap();
    let started = ["session_started", "user_message", "model_asked", "delta"];
    let expected = [&started[..], &["model_answered", "decision_failed", "step_finished"]].concat();
    assert_eq!(*all.lock().unwrap(), expected);
    let failed = some.lock().unwrap();
    assert_eq!((failed.len(), failed[0].kind), (1, RecordKind::DecisionFailed));
    assert_eq!(failed[0].status.as_deref(), Some(DecisionFault::Validation.as_str()));
    // A slow subscriber loses the events that do not fit, and can read their number.
    assert_eq!(slow.try_next().map(|event| name(&event)), Some("session_started"));
    assert_eq!((slow.try_next().map(|event| name(&event)), slow.lost_events()), (Some("user_message"), 5));
    assert_eq!(slow.try_next(), None);
}

fn name(event: &AgentEvent) -> &'static str {
    match event {
        AgentEvent::Record(record) => record.kind.as_str(),
        AgentEvent::Delta { .. } => "delta",
        AgentEvent::Warning { .. } => "warning",
    }
}

#[tokio::test]
async fn what_the_executor_records_through_the_tap_is_an_event() {
    let memory = Arc::new(Memory::default());
    let tap = Tap::new(memory.clone());
    let mut events = tap.subscribe(10);
    let mut factory = super::record_factory::RecordFactory::new("s".to_owned(), None);
    for kind in [RecordKind::ToolStarted, RecordKind::ToolFinished] {
        let record = factory.create(kind, None, Timestamp(0), serde_json::Value::Null);
        tap.record(record, Durability::Queued).await.unwrap();
    }
    for kind in ["tool_started", "tool_finished"] {
        assert_eq!(name(&events.next().await.unwrap()), kind);
    }
    assert_eq!(memory.kinds(), ["tool_started", "tool_finished"]);
}

#[tokio::test(start_paused = true)]
async fn a_tenants_fuel_stops_the_next_batch() {
    let tools = Arc::new(Tools::default());
    let memory = Arc::new(Memory::default());
    let fuel = Arc::new(TenantFuel::new(10));
    let answers = vec![calls(1, 1), calls(2, 1)];
    let builder = agent(script(SOON, answers), &tools, &memory).tenant_fuel(fuel.clone());
    let outcome = builder.build().unwrap().run("one").await.unwrap();
    assert!(matches!(outcome.ending, Ending::BudgetExhausted { budget: BudgetKind::TenantFuel, .. }));
    assert_eq!(fuel.remaining(), 0);
    assert_eq!(tools.scopes.lock().unwrap().len(), 1);
    assert!(memory.kinds().contains(&"tool_rejected"));
}

#[tokio::test(start_paused = true)]
async fn a_warning_says_that_tools_were_left_out() {
    let tools = Arc::new(Tools::default());
    let memory = Arc::new(Memory::default());
    let answers = vec![Err(ModelError::new(ModelFailure::ToolsUnsupported, "no tools")), Ok(Response::text("done"))];
    let model = Arc::new(Script { takes: SOON, answers: Mutex::new(answers) });
    let mut agent = agent(model, &tools, &memory).build().unwrap();
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let into = warnings.clone();
    agent.tap().wiretap(move |event| {
        if let AgentEvent::Warning { message, .. } = event {
            into.lock().unwrap().push(message.clone());
        }
    });
    assert_eq!(agent.run("one").await.unwrap().text(), "done");
    assert!(matches!(&warnings.lock().unwrap()[..], [message] if message.contains("no tools")));
}

#[tokio::test(start_paused = true)]
async fn cancels_a_run_and_continues_with_the_next() {
    let memory = Arc::new(Memory::default());
    let hangs = Arc::new(Tools { takes: Duration::from_secs(100), ..Tools::default() });
    let mut agent = agent(script(SOON, vec![calls(1, 1), Response::text("done")]), &hangs, &memory).build().unwrap();
    let handle = agent.cancel_handle();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.cancel();
    });
    let outcome = agent.run("one").await.unwrap();
    assert_eq!((outcome.ending, outcome.run.executions().count()), (Ending::Cancelled, 1));
    assert_eq!(agent.run("two").await.unwrap().text(), "done");
}

/// A model that writes the beginning of an answer and never ends.
struct Stalls;

impl Model for Stalls {
    fn chat<'a>(
        &'a self,
        request: &'a Request,
        sink: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Response, ModelError>> {
        Box::pin(async move {
            if request.messages.iter().any(|message| message.content == "two") {
                let texts: Vec<_> = request.messages.iter().map(|message| message.content.as_str()).collect();
                return Ok(Response::text(texts.join("|")));
            }
            sink.delta(Delta::Text("Once upon".to_owned()));
            std::future::pending().await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn keeps_the_text_of_an_interrupted_answer() {
    let memory = Arc::new(Memory::default());
    let mut agent = agent(Arc::new(Stalls), &Arc::new(Tools::default()), &memory).build().unwrap();
    let handle = agent.cancel_handle();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.cancel();
    });
    let outcome = agent.run("one").await.unwrap();
    assert_eq!((&outcome.ending, outcome.run.steps[0].text.as_str()), (&Ending::Cancelled, "Once upon"));
    assert!(agent.run("two").await.unwrap().text().ends_with("one|Once upon|two"));
}

#[tokio::test(start_paused = true)]
async fn reset_starts_an_empty_session() {
    let memory = Arc::new(Memory::default());
    let answers = vec![Response::text("first"), Response::text("second")];
    let mut agent = agent(script(SOON, answers), &Arc::new(Tools::default()), &memory).build().unwrap();
    let first = agent.session().config().id.clone();
    assert_eq!(agent.run("one").await.unwrap().text(), "first");
    agent.reset().await.unwrap();
    assert_ne!(agent.session().config().id, first);
    assert!(agent.session().transcript().runs.is_empty());
    assert_eq!(agent.run("two").await.unwrap().text(), "second");
    let kinds = memory.kinds();
    let count = |kind: &str| kinds.iter().filter(|it| **it == kind).count();
    assert_eq!((count("session_started"), count("session_finished")), (2, 1), "{kinds:?}");
}

#[tokio::test(start_paused = true)]
async fn records_a_dropped_run_as_cancelled() {
    let memory = Arc::new(Memory::default());
    let tools = Arc::new(Tools::default());
    let mut agent = agent(script(Duration::from_secs(30), vec![]), &tools, &memory).build().unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(1), agent.run("one")).await.is_err());
    assert_eq!(agent.session().transcript().runs[0].ending, Some(Ending::Cancelled));
    drop(agent);
    assert_eq!(memory.kinds(), ["session_started", "user_message", "model_asked", "step_finished", "session_finished"]);
    assert_eq!(memory.records.lock().unwrap()[3].body["ending"]["ending"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_kept_ends_the_run() {
    let memory = Arc::new(Memory { fail_from: Some(3), ..Memory::default() });
    let mut agent =
        agent(script(SOON, vec![Response::text("done")]), &Arc::new(Tools::default()), &memory).build().unwrap();
    let error = agent.run("one").await.unwrap_err();
    assert_eq!(error, RunError::Record(RecordError("the disk is full".to_owned())));
    assert_eq!(agent.session().transcript().runs[0].ending, Some(Ending::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn runs_step_by_step_and_replays_its_inputs() {
    fn to_json(session: &crate::session::Session) -> String {
        serde_json::to_string(session.transcript()).unwrap()
    }

    let tools = Arc::new(Tools::default());
    let memory = Arc::new(Memory::default());
    let answers = vec![calls(1, 2), Response::calls(vec![call("o", "odd", "{}")]), Response::text("done")];
    let mut agent = agent(script(SOON, answers), &tools, &memory).keep_inputs().build().unwrap();
    let mut steps = agent.iterate("one");
    let mut numbers = Vec::new();
    while let Some(step) = steps.next().await.unwrap() {
        numbers.push(step.number);
    }
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(steps.outcome().unwrap().text(), "done");
    drop(steps);
    let mut again = session(agent.session().config().clone());
    replay(&mut again, agent.inputs().to_vec()).unwrap();
    assert_eq!(to_json(&again), to_json(agent.session()));
}

#[tokio::test(start_paused = true)]
async fn every_call_reaches_the_executor_with_its_session_run_and_step() {
    let tools = Arc::new(Tools::default());
    let memory = Arc::new(Memory::default());
    let answers = vec![calls(1, 2), calls(3, 1), Response::text("done")];
    let mut agent = agent(script(SOON, answers), &tools, &memory).build().unwrap();
    let outcome = agent.run("one").await.unwrap();
    let scopes = tools.scopes.lock().unwrap();
    let seen: Vec<_> =
        scopes.iter().map(|scope| (scope.session.as_str(), scope.execution.as_str(), scope.step)).collect();
    assert_eq!(seen, [("s1", "s1/1", 1), ("s1", "s1/1", 2)]);
    assert_eq!(outcome.run.executions().count(), 3, "what the executor gave is all there is");
}

#[tokio::test(start_paused = true)]
async fn reports_a_panic_of_the_model_as_unavailable() {
    let tools = Arc::new(Tools::default());
    let memory = Arc::new(Memory::default());
    let model = |_: &Request| -> Result<Response, ModelError> { panic!("broken on purpose") };
    let mut agent = agent(Arc::new(model), &tools, &memory).build().unwrap();
    let outcome = agent.run("one").await.unwrap();
    let Ending::ModelFailed { error } = outcome.ending else { panic!("{:?}", outcome.ending) };
    assert_eq!(error.failure, ModelFailure::Unavailable);
    assert!(error.message.contains("broken on purpose"), "{error}");
    assert!(memory.kinds().contains(&"model_failed"));
}
