//! Saved sessions and records of an earlier release, in `tests/golden`: they still resume, and the same run still leaves them.
//!
//! `FUMEHOOD_WRITE_GOLDEN=1 cargo test -p fumehood-agent golden` writes the files anew.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use fumehood_core::flow::{FlowLabel, FlowLabels, FlowPolicy};
use fumehood_core::policy::call::DeferringApprover;
use fumehood_core::program::{Program, ProgramCalls, ProgramExecution};
use fumehood_core::saved_session::SessionEntry;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::deferred::{Shop, answer, model, yes};
use super::programs::{AT_ONCE, Lines, SEQUENCE, writing};
use super::saved::Saved;
use super::*;
use crate::code::{CodeMode, Interpreter};

/// A session as a file: its entries, the records that came with them, and those of its calls.
#[derive(Serialize, Deserialize)]
struct Golden {
    entries: Vec<Value>,
    records: Vec<Value>,
    calls: Vec<Value>,
}

/// A kind of session: whether a rule asks about payments, whether flows are checked, and the program that the model writes.
struct Kind {
    name: &'static str,
    is_lax: bool,
    has_flows: bool,
    program: Option<&'static str>,
    /// Number of payments once all questions are answered with yes.
    paid: usize,
}

const KINDS: [Kind; 5] = [
    Kind { name: "finished", is_lax: true, has_flows: false, program: None, paid: 2 },
    Kind { name: "suspended", is_lax: false, has_flows: false, program: None, paid: 2 },
    Kind { name: "program", is_lax: true, has_flows: false, program: Some(AT_ONCE), paid: 2 },
    Kind { name: "suspended_program", is_lax: false, has_flows: false, program: Some(SEQUENCE), paid: 2 },
    Kind { name: "program_flows", is_lax: true, has_flows: true, program: Some(SEQUENCE), paid: 2 },
];

/// An interpreter whose programs do not depend on their execution.
struct Seedless;

impl Interpreter for Seedless {
    fn run<'a>(&'a self, program: Program, calls: &'a mut dyn ProgramCalls) -> BoxFuture<'a, ProgramExecution> {
        Lines.run(Program { seed: 0, ..program }, calls)
    }
}

impl Kind {
    fn shop(&self) -> Shop {
        Shop { is_lax: self.is_lax, ..Shop::default() }
    }

    fn builder(&self, shop: &Shop, saved: &Arc<Saved>) -> LoopBuilder {
        let mut pipeline = shop.pipeline().approver(Arc::new(DeferringApprover)).recorder(saved.recorder.clone());
        if self.has_flows {
            let policy = FlowPolicy::new()
                .label_tool("look", FlowLabels::default().source(FlowLabel::Private))
                .label_tool("pay", FlowLabels::default().sink(FlowLabel::Public));
            pipeline = pipeline.flows(policy);
        }
        if self.program.is_some() {
            pipeline = pipeline.code(Arc::new(Seedless), CodeMode::beside_direct_calls());
        }
        let model = self.program.map_or_else(model, writing);
        agent(model, &Arc::default(), &Arc::default())
            .executor(Arc::new(pipeline.build().unwrap()))
            .save_to(saved.clone())
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{}.json", self.name))
    }

    fn read(&self) -> Golden {
        serde_json::from_str(&fs::read_to_string(self.path()).unwrap()).unwrap()
    }
}

impl Golden {
    fn of(saved: &Saved) -> Self {
        let entries = saved.entries().into_iter().map(|entry| serde_json::from_str(&entry.content).unwrap()).collect();
        let to_values = |records: &Mutex<Vec<Record>>| {
            let records = records.lock().unwrap();
            records.iter().map(|record| serde_json::to_value(record).unwrap()).collect()
        };
        Self { entries, records: to_values(&saved.records), calls: to_values(&saved.recorder.records) }
    }

    fn entries(&self) -> Vec<SessionEntry> {
        let entries = self.entries.iter().zip(0..);
        let entries = entries.map(|(content, number)| SessionEntry {
            session: "s1".to_owned(),
            number,
            at: Timestamp(1_000),
            content: content.to_string(),
        });
        entries.collect()
    }

    /// Returns it as text, without times and with random ids replaced by numbers.
    fn to_comparable(&self) -> String {
        let mut ids = HashMap::new();
        let mut value = serde_json::to_value(self).unwrap();
        for part in ["entries", "records", "calls"] {
            strip(&mut value[part], &mut ids);
        }
        serde_json::to_string_pretty(&value).unwrap()
    }
}

fn strip(value: &mut Value, ids: &mut HashMap<String, usize>) {
    match value {
        Value::String(text) if is_random(text) => {
            let next = ids.len();
            let number = *ids.entry(text.clone()).or_insert(next);
            *text = format!("id {number}");
        }
        Value::Array(values) => values.iter_mut().for_each(|value| strip(value, ids)),
        Value::Object(members) => {
            for (name, value) in members {
                match name.as_str() {
                    "at" | "now" | "started_at" | "completed_at" | "duration_ms" | "duration" | "writer" => {
                        *value = Value::Null;
                    }
                    _ => strip(value, ids),
                }
            }
        }
        _ => {}
    }
}

/// Returns whether a text is an id with the random part of a pipeline.
fn is_random(text: &str) -> bool {
    let is_hex = |part: &str| part.len() == 16 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.split_once('-') {
        Some((number, origin)) => is_hex(number) && is_hex(origin),
        None => text.split('_').any(is_hex),
    }
}

/// Runs the session to its first end.
async fn begin(kind: &Kind) -> Arc<Saved> {
    let saved = Arc::new(Saved::default());
    let mut agent = kind.builder(&kind.shop(), &saved).build().unwrap();
    agent.run("task").await.unwrap();
    saved
}

/// Resumes the session, and answers every question with yes until it has ended. Returns the answer and the number of payments
/// since.
async fn complete(kind: &Kind, saved: &Arc<Saved>) -> (Option<String>, usize) {
    let shop = kind.shop();
    for _ in 0..9 {
        let mut agent = kind.builder(&shop, saved).resume(saved.session().unwrap()).build().unwrap();
        let Some(iteration) = agent.resume() else { return (None, shop.paid()) };
        let outcome = iteration.finish().await.unwrap();
        let Ending::WaitingForApproval { waiting } = &outcome.ending else {
            return (Some(outcome.text().to_owned()), shop.paid());
        };
        for call in waiting {
            answer(saved, &call.id, yes()).await.unwrap();
        }
    }
    panic!("{} does not end", kind.name);
}

#[tokio::test(start_paused = true)]
async fn golden_sessions_are_left_as_before() {
    for kind in KINDS {
        let saved = begin(&kind).await;
        let golden = Golden::of(&saved);
        if std::env::var_os("FUMEHOOD_WRITE_GOLDEN").is_some() {
            fs::create_dir_all(kind.path().parent().unwrap()).unwrap();
            fs::write(kind.path(), serde_json::to_string(&golden).unwrap() + "\n").unwrap();
        }
        let expected = kind.read().to_comparable();
        assert!(golden.to_comparable() == expected, "{}: {} is not {expected}", kind.name, golden.to_comparable());
    }
}

#[tokio::test(start_paused = true)]
async fn golden_sessions_resume() {
    for kind in KINDS {
        let entries = kind.read().entries();
        let saved = Saved::after(&entries);
        let (text, paid) = complete(&kind, &saved).await;
        let is_waiting = !kind.is_lax || kind.has_flows;
        assert_eq!(text.is_some(), is_waiting, "{}", kind.name);
        assert_eq!(
            paid,
            if is_waiting { kind.paid } else { 0 },
            "{}: calls that have ended are not made again",
            kind.name
        );
        for number in 1..=entries.len() {
            let saved = Saved::after(&entries[..number]);
            complete(&kind, &saved).await;
            assert!(saved.session().is_ok(), "{}: {number} entries", kind.name);
        }
    }
}
