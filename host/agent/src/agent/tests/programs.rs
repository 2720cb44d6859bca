//! Programs that wait for a person, or were stopped with their host, go on from the record of their calls.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use fumehood_core::call::CancellationToken;
use fumehood_core::call::content::Content;
use fumehood_core::call::result::Metadata;
use fumehood_core::policy::call::{Answer, Approver, DeferringApprover, Question};
use fumehood_core::program::{FinishedCall, Program, ProgramCalls, ProgramClock, ProgramExecution};
use serde_json::{Value, json};

use super::deferred::{Shop, answer, no, waiting, yes};
use super::saved::Saved;
use super::*;
use crate::agent::{CancelHandle, Outcome};
use crate::code::{CodeMode, Interpreter};

/// An interpreter whose programs are lines, each a call; lines of one paragraph run at once. Its value is the list of
/// results. Like any, it depends on its program and the results alone.
pub(super) struct Lines;

struct NoClock;

impl ProgramClock for NoClock {
    fn pause(&self) -> Box<dyn Send> {
        Box::new(())
    }
}

impl Interpreter for Lines {
    fn run<'a>(&'a self, program: Program, calls: &'a mut dyn ProgramCalls) -> BoxFuture<'a, ProgramExecution> {
        Box::pin(async move {
            let mut values = vec![json!(program.seed)];
            for paragraph in program.code.split("\n\n") {
                let mut started = BTreeMap::new();
                for line in paragraph.lines() {
                    let (name, arguments) = line.split_once(' ').unwrap();
                    started.insert(calls.start(name.to_owned(), arguments.to_owned()), Value::Null);
                }
                let mut left = started.len();
                while left > 0 && !program.cancelled.as_ref().is_some_and(CancellationToken::is_cancelled) {
                    for FinishedCall { id, result } in calls.wait(&NoClock).await {
                        left -= 1;
                        started.insert(id, result.map_or_else(|error| json!(error.message.as_str()), Value::from));
                    }
                }
                values.extend(started.into_values());
            }
            let metadata = Metadata::default().fuel_used(5);
            let outcome = Ok(Some(Content::json(Value::from(values).to_string()).unwrap()));
            ProgramExecution { outcome, console: Vec::new(), metadata }
        })
    }
}

pub(super) const SEQUENCE: &str =
    "host__look {\"euros\":0}\n\nhost__pay {\"euros\":1}\n\nhost__pay {\"euros\":2}\n\nhost__look {\"euros\":3}";
pub(super) const AT_ONCE: &str =
    "host__look {\"euros\":0}\nhost__pay {\"euros\":1}\nhost__pay {\"euros\":2}\n\nhost__look {\"euros\":3}";

/// A model that runs this program, and then repeats what it was told.
pub(super) fn writing(program: &'static str) -> Arc<dyn Model> {
    Arc::new(move |request: &Request| {
        let told = request.messages.iter().find(|message| message.tool_call_id.is_some());
        let arguments = json!({ "code": program }).to_string();
        Ok(match told {
            None => Response::calls(vec![ToolIntent { id: "c1".to_owned(), name: "run_code".to_owned(), arguments }]),
            Some(told) => Response::text(told.content.clone()),
        })
    })
}

fn coder(shop: &Shop, saved: &Arc<Saved>, program: &'static str) -> LoopBuilder {
    let memory = Arc::new(Memory::default());
    let pipeline = shop.pipeline().approver(Arc::new(DeferringApprover)).recorder(saved.recorder.clone());
    let pipeline = pipeline.code(Arc::new(Lines), CodeMode::beside_direct_calls()).build().unwrap();
    agent(writing(program), &Arc::default(), &memory).executor(Arc::new(pipeline)).save_to(saved.clone())
}

async fn resume(shop: &Shop, saved: &Arc<Saved>, program: &'static str) -> (Outcome, u32) {
    let mut agent = coder(shop, saved, program).resume(saved.session().unwrap()).build().unwrap();
    let outcome = agent.resume().unwrap().finish().await.unwrap();
    let calls = agent.session().budget_usage().calls;
    (outcome, calls)
}

fn counts(shop: &Shop) -> (usize, usize) {
    (shop.paid(), shop.looked.load(Ordering::SeqCst))
}

/// Runs the sequence to its end, with every call approved. Returns what the model was told.
async fn whole_sequence(shop: &Shop, saved: &Arc<Saved>) -> String {
    let outcome = coder(shop, saved, SEQUENCE).build().unwrap().run("task").await.unwrap();
    assert_eq!(waiting(&outcome), ["s1:1"]);
    answer(saved, "s1:1", yes()).await.unwrap();
    assert_eq!(waiting(&resume(shop, saved, SEQUENCE).await.0), ["s1:2"]);
    answer(saved, "s1:2", yes()).await.unwrap();
    resume(shop, saved, SEQUENCE).await.0.text().to_owned()
}

#[tokio::test(start_paused = true)]
async fn program_is_suspended_at_each_call_that_waits() {
    fn find_started(records: &[Record], tool: &str) -> Vec<Record> {
        let of_tool = records.iter().filter(|record| record.tool.as_deref() == Some(tool));
        of_tool.filter(|record| record.kind == RecordKind::ToolStarted).cloned().collect::<Vec<_>>()
    }

    let shop = Shop::default();
    let saved = Arc::new(Saved::default());
    let outcome = coder(&shop, &saved, SEQUENCE).build().unwrap().run("task").await.unwrap();
    let Ending::WaitingForApproval { waiting: calls } = &outcome.ending else { panic!("{outcome:?}") };
    assert_eq!((calls[0].id.as_str(), calls[0].call.as_str(), calls[0].tool.as_str()), ("s1:1", "c1", "pay"));
    assert_eq!((counts(&shop), calls[0].arguments.clone()), ((0, 1), Some(json!({"euros": 1}))));
    // Nobody has answered: the program is not even run.
    let entries = saved.entries().len();
    assert_eq!(waiting(&resume(&shop, &saved, SEQUENCE).await.0), ["s1:1"]);
    assert_eq!(saved.entries().len(), entries);

    answer(&saved, "s1:1", yes()).await.unwrap();
    assert_eq!(waiting(&resume(&shop, &saved, SEQUENCE).await.0), ["s1:2"]);
    assert_eq!(counts(&shop), (1, 1), "what has a result is not run again");
    answer(&saved, "s1:2", no()).await.unwrap();
    let (outcome, calls) = resume(&shop, &saved, SEQUENCE).await;
    let text = outcome.text();
    assert!(text.contains("paid 1") && text.contains("too much"), "{text}");
    assert_eq!((counts(&shop), calls), ((1, 2), 5), "one call of the model and four of the program, each counted once");

    let records = saved.recorder.records.lock().unwrap();
    assert_eq!(
        (find_started(&records, "look").len(), find_started(&records, "pay").len()),
        (2, 1),
        "a replayed call is no execution"
    );
    let programs = find_started(&records, "run_code");
    let resumed: Vec<bool> = programs.iter().map(|record| record.body["resumed"] == true).collect();
    assert_eq!(resumed, [false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn calls_that_run_at_once_wait_together_and_are_answered_one_by_one() {
    let shop = Shop::default();
    let saved = Arc::new(Saved::default());
    let outcome = coder(&shop, &saved, AT_ONCE).build().unwrap().run("task").await.unwrap();
    assert_eq!((waiting(&outcome), counts(&shop)), (vec!["s1:1", "s1:2"], (0, 1)));
    answer(&saved, "s1:2", yes()).await.unwrap();
    let (outcome, _) = resume(&shop, &saved, AT_ONCE).await;
    assert_eq!((waiting(&outcome), counts(&shop)), (vec!["s1:1"], (1, 1)), "the other one waits under the same id");
    answer(&saved, "s1:1", yes()).await.unwrap();
    let (outcome, calls) = resume(&shop, &saved, AT_ONCE).await;
    let text = outcome.text();
    assert!(text.find("paid 1").unwrap() < text.find("paid 2").unwrap(), "{text}");
    assert_eq!((counts(&shop), calls), ((2, 2), 5));
}

#[tokio::test(start_paused = true)]
async fn program_that_was_stopped_goes_on_from_each_entry() {
    let shop = Shop::default();
    let saved = Arc::new(Saved::default());
    let expected = whole_sequence(&shop, &saved).await;
    assert_eq!(counts(&shop), (2, 2));
    let entries = saved.entries();
    assert!(entries.len() > 15, "{} entries", entries.len());
    let mut interrupted = 0;
    for kept in 2..entries.len() {
        let shop = Shop::default();
        let saved = Saved::after(&entries[..kept]);
        let count = |what: &str| entries[..kept].iter().filter(|entry| entry.content.contains(what)).count();
        let done = count("\"finished\":{\"number\"");
        let mut text = None;
        for _ in 0..4 {
            let (outcome, calls) = resume(&shop, &saved, SEQUENCE).await;
            let Ending::WaitingForApproval { waiting } = &outcome.ending else {
                assert!(calls <= 5, "{kept} entries: {calls} calls are counted");
                text = Some(outcome.text().to_owned());
                break;
            };
            for call in waiting {
                answer(&saved, &call.id, yes()).await.unwrap();
            }
        }
        let text = text.unwrap();
        let lost = text.matches("interrupted: ").count();
        interrupted += lost;
        let (paid, looked) = counts(&shop);
        if count("\"started\":{\"execution\"") > 0 && count("\"tools_finished\":{\"outcome\":{\"executions\":[{") == 0 {
            assert_eq!(
                done + lost + paid + looked,
                4,
                "{kept} entries: each call ran once, or is told as interrupted: {text}"
            );
            assert!(lost > 0 || text == expected, "{kept} entries: {text}, and not {expected}");
        }
        assert!(paid <= 2 && looked <= 2, "{kept} entries");
    }
    assert!(interrupted >= 4, "a stop behind the beginning of each call is among them: {interrupted}");
}

#[tokio::test(start_paused = true)]
async fn record_of_other_calls_is_refused() {
    for (from, to, says) in [
        ("\"name\":\"host__look\"", "\"name\":\"host__pay\"", "call 1 was of `host__pay`"),
        ("\"name\":\"host__look\"", "\"name\":\"host__look\"", "call 1, of `host__look`, has different arguments"),
        ("\"digest\":\"sha256:", "\"digest\":\"sha256:", "its text differs"),
    ] {
        let shop = Shop::default();
        let saved = Arc::new(Saved::default());
        coder(&shop, &saved, SEQUENCE).build().unwrap().run("task").await.unwrap();
        let mut entries = saved.entries();
        for entry in entries.iter_mut().filter(|entry| entry.content.starts_with("{\"program\"")) {
            let is_start = entry.content.contains("\"started\"");
            if is_start == from.contains("digest") && entry.content.contains("sha256:") {
                // Another digest: the first digit is changed.
                let content = entry.content.replace(from, to);
                let at = content.find("sha256:").unwrap() + 7;
                let digit = if content.as_bytes()[at] == b'0' { "1" } else { "0" };
                entry.content = format!("{}{digit}{}", &content[..at], &content[at + 1..]);
            }
        }
        let saved = Saved::after(&entries);
        answer(&saved, "s1:1", yes()).await.unwrap();
        let (outcome, _) = resume(&shop, &saved, SEQUENCE).await;
        assert!(outcome.text().contains(says), "{says} is not in: {}", outcome.text());
        assert_eq!(counts(&shop), (0, 1), "nothing more ran");
    }
}

#[tokio::test(start_paused = true)]
async fn call_of_a_program_that_is_not_recorded_is_refused() {
    let shop = Shop::default();
    let pipeline = shop.pipeline().approver(Arc::new(DeferringApprover));
    let pipeline = pipeline.code(Arc::new(Lines), CodeMode::beside_direct_calls()).build().unwrap();
    let builder = agent(writing(SEQUENCE), &Arc::default(), &Arc::default()).executor(Arc::new(pipeline));
    let outcome = builder.build().unwrap().run("task").await.unwrap();
    assert!(outcome.text().contains("this call needs approval"), "{}", outcome.text());
    assert_eq!(counts(&shop), (0, 2));
}

/// A person who suspends the run in place of an answer.
#[derive(Default)]
struct SuspendingApprover(OnceLock<CancelHandle>);

impl Approver for SuspendingApprover {
    fn ask<'a>(&'a self, _: Question<'a>) -> BoxFuture<'a, Answer> {
        self.0.get().unwrap().suspend();
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn program_that_is_suspended_goes_on_from_its_record() {
    let shop = Shop::default();
    let saved = Arc::new(Saved::default());
    let person = Arc::new(SuspendingApprover::default());
    let pipeline = shop.pipeline().approver(person.clone()).code(Arc::new(Lines), CodeMode::beside_direct_calls());
    let builder =
        agent(writing(SEQUENCE), &Arc::default(), &Arc::default()).executor(Arc::new(pipeline.build().unwrap()));
    let mut stopped = builder.save_to(saved.clone()).build().unwrap();
    person.0.set(stopped.cancel_handle()).unwrap();
    assert_eq!(stopped.run("task").await.unwrap().ending, Ending::Suspended);
    assert_eq!(counts(&shop), (0, 1));
    drop(stopped);

    // The call about which somebody was asked had not run, and what had run is not run again.
    let shop = Shop { is_lax: true, ..shop };
    let (outcome, calls) = resume(&shop, &saved, SEQUENCE).await;
    assert!(matches!(outcome.ending, Ending::Answered { .. }), "{outcome:?}");
    assert_eq!(calls, 5);
    assert_eq!(shop.looked.load(Ordering::SeqCst), 2, "one before, one after");
}
