//! Tests of time limits: on the writing of a model, and on a whole run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::{Activity, Delta, DeltaSink, Model, ModelError, Request, Response};
use fumehood_core::record::RecordKind;
use tokio::time::Instant;

use super::{Memory, SOON, Tools, agent, script};
use crate::session::budget::BudgetKind;
use crate::session::tests::world::calls;
use crate::session::transcript::Ending;

#[tokio::test(start_paused = true)]
async fn a_runaway_stream_is_cut_and_a_slow_tool_is_not() {
    let memory = Arc::new(Memory::default());
    let minute = Duration::from_secs(60);
    let slow = Arc::new(Tools { takes: 5 * minute, ..Tools::default() });
    let answers = vec![calls(1, 1), Response::text("done")];
    let mut patient = agent(script(minute / 3, answers.clone()), &slow, &memory).build().unwrap();
    assert_eq!(patient.run("one").await.unwrap().text(), "done");
    // 40 s and 40 s are 80 s, so the second answer is cut off after 20 s, and its text is kept.
    let mut cut = agent(script(minute * 2 / 3, answers), &slow, &memory).build().unwrap();
    let began = Instant::now();
    let outcome = cut.run("one").await.unwrap();
    let expected = Ending::BudgetExhausted { budget: BudgetKind::StreamTime, text: "so far".to_owned() };
    assert_eq!(outcome.ending, expected);
    assert_eq!(began.elapsed().as_secs(), 40 + 300 + 20);
    assert_eq!(outcome.run.steps.len(), 2);
}

/// A model with delays: for reading, for the wait between two tries, and for writing a call or two words.
struct Slow {
    reads: Duration,
    waits: Duration,
    writes: Duration,
    calls: AtomicUsize,
}

impl Model for Slow {
    fn chat<'a>(
        &'a self,
        _: &'a Request,
        deltas: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Response, ModelError>> {
        Box::pin(async move {
            tokio::time::sleep(self.reads).await;
            deltas.activity(Activity::Writing);
            deltas.activity(Activity::Waiting);
            tokio::time::sleep(self.waits).await;
            let is_call = self.calls.fetch_add(1, Ordering::Relaxed) == 0;
            if is_call {
                deltas.activity(Activity::Writing)
            } else {
                deltas.delta(Delta::Text("so far".to_owned()))
            }
            tokio::time::sleep(self.writes).await;
            Ok(if is_call { calls(1, 1) } else { Response::text("done") })
        })
    }
}

#[tokio::test(start_paused = true)]
async fn counts_only_writing_as_stream_time() {
    fn slow(writes_secs: u64) -> Slow {
        Slow {
            reads: Duration::from_secs(120),
            waits: Duration::from_secs(30),
            writes: Duration::from_secs(writes_secs),
            calls: AtomicUsize::new(0),
        }
    }

    let memory = Arc::new(Memory::default());
    let second = Duration::from_secs(1);
    let tools = Arc::new(Tools::default());
    let mut patient = agent(Arc::new(slow(29)), &tools, &memory).build().unwrap();
    assert_eq!(patient.run("one").await.unwrap().text(), "done");
    assert_eq!(patient.session().budget_usage().streamed, 58 * second);
    let answered = memory.records.lock().unwrap().iter().rfind(|it| it.kind == RecordKind::ModelAnswered).cloned();
    assert_eq!(answered.unwrap().body["duration_ms"], 179_000.0, "the record has all of it");

    let mut cut = agent(Arc::new(slow(40)), &tools, &memory).build().unwrap();
    let began = Instant::now();
    let outcome = cut.run("one").await.unwrap();
    let expected = Ending::BudgetExhausted { budget: BudgetKind::StreamTime, text: "so far".to_owned() };
    assert_eq!(outcome.ending, expected);
    assert_eq!(began.elapsed().as_secs(), 2 * (120 + 30) + 60);
}

#[tokio::test(start_paused = true)]
async fn tools_are_stopped_when_the_wall_time_is_over() {
    let memory = Arc::new(Memory::default());
    let hangs = Arc::new(Tools { takes: Duration::from_secs(100_000), ..Tools::default() });
    let mut agent = agent(script(SOON, vec![calls(1, 1)]), &hangs, &memory).build().unwrap();
    let outcome = agent.run("one").await.unwrap();
    assert!(matches!(outcome.ending, Ending::BudgetExhausted { budget: BudgetKind::WallTime, .. }));
    assert_eq!(outcome.run.executions().count(), 1);
    assert!(memory.kinds().contains(&"tool_finished"));
}
