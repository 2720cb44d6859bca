//! Sessions that are resumed or stopped: what they read and what they used is known afterwards.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fumehood_agent::agent::{Agent, LoopBuilder};
use fumehood_agent::budget::TenantFuel;
use fumehood_agent::code::CodeMode;
use fumehood_agent::execution::Status;
use fumehood_agent::native::NativeDriver;
use fumehood_agent::pipeline::PipelineBuilder;
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltIns};
use fumehood_agent::session::{SavedSession, SessionConfig};
use fumehood_agent::transcript::Ending;
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::chat::{Model, Request, Response};
use fumehood_core::flow::FlowPolicy;
use fumehood_core::record::{Record, RecordError};
use fumehood_core::saved_session::{SessionEntry, SessionStore};
use serde_json::json;

use super::flows::{World, tools};
use super::stage::{Nothing, everything, intent};
use crate::line_interpreter::Lines;

/// A store in memory, with the entries of one session.
#[derive(Default)]
struct Entries(Mutex<Vec<SessionEntry>>);

impl SessionStore for Entries {
    fn append(&self, entry: SessionEntry, _: Vec<Record>) -> BoxFuture<'_, Result<(), RecordError>> {
        self.0.lock().unwrap().push(entry);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Entries {
    fn first(&self, count: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.0.lock().unwrap()[..count].to_vec())))
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn calls(calls: &[(&str, &str)]) -> Response {
    Response::calls(calls.iter().map(|(name, arguments)| intent("", name, arguments)).collect())
}

fn program(code: &str) -> Response {
    calls(&[("run_code", &json!({"code": code}).to_string())])
}

fn script(replies: impl IntoIterator<Item = Response>) -> Arc<dyn Model> {
    let replies = Mutex::new(replies.into_iter().collect::<VecDeque<_>>());
    Arc::new(move |_: &Request| Ok(replies.lock().unwrap().pop_front().unwrap_or_else(|| Response::text("done"))))
}

fn agent(world: &World, entries: &Arc<Entries>, replies: impl IntoIterator<Item = Response>) -> LoopBuilder {
    let pipeline = PipelineBuilder::default()
        .built_ins(Arc::new(tools(world)))
        .allowlists(everything())
        .code(Arc::new(Lines::default()), CodeMode::beside_direct_calls())
        .flows(FlowPolicy::new());
    Agent::builder(script(replies))
        .driver(NativeDriver::default())
        .executor(Arc::new(pipeline.build().unwrap()))
        .config(SessionConfig { id: "s1".to_owned(), ..SessionConfig::default() })
        .save_to(Arc::clone(entries) as _)
}

/// Resumes a session, ends the run under way, and has the model post something. Returns the message of the refusal.
async fn post_after_resuming(world: &World, entries: &Arc<Entries>) -> String {
    let saved = SavedSession::from_entries(&entries.0.lock().unwrap()).unwrap();
    let post = calls(&[("post", r#"{"text": "the-secret"}"#)]);
    // The run under way gets an answer, if there is one.
    let mut agent = agent(world, entries, [Response::text("done")]).resume(saved.clone()).build().unwrap();
    if let Some(run) = agent.resume() {
        run.finish().await.unwrap();
    }
    drop(agent);
    let saved = SavedSession::from_entries(&entries.0.lock().unwrap()).unwrap();
    let mut agent = self::agent(world, entries, [post]).resume(saved).build().unwrap();
    let outcome = agent.run("post it").await.unwrap();
    outcome.run.executions().next().unwrap().error_message().to_owned()
}

#[tokio::test]
async fn a_resumed_session_knows_what_it_read() {
    // A head, the message, the call, its result and the answer; of a program, the beginning of its call, too.
    for (read, expected) in [(calls(&[("read", "{}")]), 5), (program("host__read"), 6)] {
        let world = World::default();
        let entries = Arc::new(Entries::default());
        agent(&world, &entries, [read]).build().unwrap().run("read it").await.unwrap();
        assert_eq!(entries.len(), expected);
        // Killed before the call: nothing was read. Killed while it ran, or later: it was, or may have been.
        for kept in 2..=entries.len() {
            let message = post_after_resuming(&world, &entries.first(kept)).await;
            assert_eq!(message.contains("private data may become public"), kept > 2, "{kept}: {message}");
        }
        assert_eq!(world.public.lock().unwrap().len(), 1, "only the call after a session that had read nothing");
    }
}

#[tokio::test]
async fn a_cancelled_program_is_charged_and_has_read() {
    let world = World::default();
    let entries = Arc::new(Entries::default());
    let slow = program("host__put {\"text\": \"x\"}\n\nhost__slow");
    let mut agent = agent(&world, &entries, [slow]).build().unwrap();
    let cancel = agent.cancel_handle();
    let (outcome, ()) = tokio::join!(agent.run("go"), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        cancel.cancel();
    });
    assert_eq!(outcome.unwrap().ending, Ending::Cancelled);
    assert_eq!(agent.session().budget_usage().calls_in_all, 3, "the program and its two calls");
    let usage = agent.session().budget_usage().clone();
    let saved = SavedSession::from_entries(&entries.0.lock().unwrap()).unwrap();
    let restored = saved.restore(Box::new(NativeDriver::default()), None).unwrap().session;
    assert_eq!(restored.budget_usage(), &usage);
    assert_eq!(restored.transcript().first_calls, agent.session().transcript().first_calls);
    drop(agent);
    let message = post_after_resuming(&world, &entries).await;
    assert!(message.contains("`slow` (private: it reads granted folders) was called at call 3"), "{message}");
}

#[tokio::test]
async fn a_run_whose_future_is_dropped_is_charged_for_its_program() {
    let world = World::default();
    let entries = Arc::new(Entries::default());
    let mut agent = agent(&world, &entries, [program("host__slow")]).build().unwrap();
    let dropped = tokio::time::timeout(Duration::from_millis(20), agent.run("go")).await;
    assert!(dropped.is_err());
    assert_eq!(agent.session().budget_usage().calls_in_all, 2);
    assert_eq!(agent.session().transcript().first_calls[0].tool, "slow");
}

#[tokio::test]
async fn fuel_of_the_tenant_is_looked_at_for_each_call() {
    let tenant = Arc::new(TenantFuel::new(10));
    let spends = Arc::clone(&tenant);
    // Another session of the tenant uses up its fuel in the meantime.
    let spend = move |_: Nothing, _: CallContext| {
        spends.spend(10);
        async move { Ok::<_, BuiltInError>(()) }
    };
    let tools = BuiltIns::default();
    tools.register(BuiltIn::new("spend", "Spends.", spend).unwrap()).unwrap();
    let modes = fumehood_agent::pipeline::Modes {
        concurrency: std::num::NonZeroUsize::MIN,
        ..fumehood_agent::pipeline::Modes::default()
    };
    let pipeline = PipelineBuilder::default()
        .built_ins(Arc::new(tools))
        .allowlists(everything())
        .code(Arc::new(Lines::default()), CodeMode::beside_direct_calls())
        .modes(modes);
    let executor = Arc::new(pipeline.build().unwrap());
    let run = async |reply: Response| {
        let agent = Agent::builder(script([reply])).driver(NativeDriver::default()).executor(executor.clone());
        let outcome = agent.tenant_fuel(Arc::clone(&tenant)).build().unwrap().run("go").await.unwrap();
        let executions: Vec<_> = outcome.run.executions().cloned().collect();
        tenant.refill(10);
        executions
    };
    let statuses: Vec<_> =
        run(calls(&[("spend", "{}"), ("spend", "{}")])).await.iter().map(|execution| execution.status).collect();
    assert_eq!(statuses, [Status::Ok, Status::RejectedBudget]);
    let text = run(program("host__spend\n\nhost__spend")).await[0].result.text().unwrap().into_owned();
    assert!(text.contains("[null,[\"budget_exhausted\""), "{text}");
    assert_eq!(tenant.remaining(), 10, "the program paid for itself");
}
