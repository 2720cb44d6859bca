//! Decisions on calls and their records, as an earlier release made them: `tests/golden/decisions.txt`.
//!
//! `FUMEHOOD_WRITE_GOLDEN=1 cargo test -p fumehood-agent decisions` writes the file anew.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use fumehood_agent::code::CodeMode;
use fumehood_agent::pipeline::PipelineBuilder;
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::result::CallError;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::chat::Usage;
use fumehood_core::flow::{FlowLabel, FlowLabels, FlowPolicy};
use fumehood_core::policy::call::{Answer, Approver, Decision, Policy, PolicyFn, Question, Ruling};
use fumehood_core::record::Record;
use fumehood_core::tool::ValidatedCall;
use serde_json::{Value, json};

use super::stage::{Stage, after, before, stage};
use crate::line_interpreter::Lines;

/// Texts about which rules, the judge, hooks and people decide.
const WORDS: [&str; 14] = [
    "hello", "raise", "deny", "ask", "judge", "rewrite", "refuse", "question", "to-ask", "to-deny", "to-raise",
    "break", "secret", "reject",
];

fn rewrite(text: &str, note: Option<&str>) -> Decision<Arguments> {
    Decision::Rewrite { to: Arguments::Value(json!({ "text": text })), note: note.map(str::to_owned) }
}

fn text_of(call: &ValidatedCall) -> &str {
    call.arguments()["text"].as_str().unwrap_or_default()
}

/// A judge that denies one text.
struct Judge;

impl Policy for Judge {
    fn name(&self) -> &str {
        "judge"
    }

    fn before<'a>(&'a self, call: &'a ValidatedCall, _: &'a CallContext) -> BoxFuture<'a, Result<Ruling, CallError>> {
        let decision = if text_of(call) == "judge" { Decision::deny("judged") } else { Decision::Allow };
        Box::pin(std::future::ready(Ok(Ruling { decision, usage: Usage::new(3, 1) })))
    }
}

/// A person who always gives this answer.
struct Person(Answer);

impl Approver for Person {
    fn ask<'a>(&'a self, _: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(self.0.clone()))
    }
}

fn policies(builder: PipelineBuilder, answer: Option<Answer>) -> PipelineBuilder {
    let rule = PolicyFn::new("words", |call: &ValidatedCall, _: &CallContext| match text_of(call) {
        "raise" => rewrite("raised", Some("it was raised")),
        "deny" => Decision::deny("not today"),
        "ask" => Decision::ask("may it?"),
        _ => Decision::Allow,
    });
    let hook = before("hook", |call| match text_of(call) {
        "rewrite" => rewrite("rewritten", None),
        "refuse" => Decision::deny("never"),
        "question" => Decision::ask("really?"),
        "to-ask" => rewrite("ask", None),
        "to-deny" => rewrite("deny", None),
        "to-raise" => rewrite("raise", None),
        "break" => Decision::Rewrite { to: Arguments::Text("{}".to_owned()), note: None },
        _ => Decision::Allow,
    });
    let results = after("results", |call, _| match text_of(call) {
        "secret" => Decision::Rewrite { to: Ok(vec![Content::text("[left out]")]), note: None },
        "reject" => Decision::deny("not for you"),
        _ => Decision::Allow,
    });
    let builder = builder.rule(Arc::new(rule)).judge(Arc::new(Judge));
    let builder = builder.call_hooks([hook, results].into_iter().collect());
    let builder = builder.code(Arc::new(Lines::default()), CodeMode::beside_direct_calls());
    match answer {
        Some(answer) => builder.approver(Arc::new(Person(answer))),
        None => builder,
    }
}

fn flows() -> FlowPolicy {
    FlowPolicy::new()
        .label_tool("divide", FlowLabels::default().source(FlowLabel::Private))
        .label_tool("echo", FlowLabels::default().sink(FlowLabel::Public))
}

/// Removes what differs between runs, and replaces random ids by numbers.
fn strip(value: &mut Value, ids: &mut HashMap<String, usize>) {
    match value {
        Value::String(text) if is_random(text) => {
            let next = ids.len();
            let number = *ids.entry(text.clone()).or_insert(next);
            *text = format!("#{number}");
        }
        Value::Array(values) => values.iter_mut().for_each(|value| strip(value, ids)),
        Value::Object(members) => {
            members.retain(|name, value| {
                let is_constant = matches!(name.as_str(), "session" | "execution" | "step");
                !(is_constant || value.is_null() || matches!(name.as_str(), "at" | "duration_ms"))
            });
            members.values_mut().for_each(|value| strip(value, ids));
        }
        _ => {}
    }
}

/// Returns whether a text is an id with the random part of a pipeline.
fn is_random(text: &str) -> bool {
    text.split(['_', '-']).any(|part| part.len() == 16 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Makes calls one after the other, and writes down each with its records.
async fn transcript(name: &str, stage: &Stage, calls: &[(&str, String)]) -> String {
    let mut text = format!("== {name}\n");
    let mut ids = HashMap::new();
    for (tool, arguments) in calls {
        let execution = stage.call(tool, arguments).await;
        let outcome = match execution.error() {
            Some(error) => format!("{:?} {}: {}", execution.status, error.kind, error.message),
            None => format!("{:?} {}", execution.status, execution.result.text().unwrap()),
        };
        writeln!(text, "\n{tool} {arguments}\n  {outcome}").unwrap();
        if let Some(modified) = &execution.modified {
            writeln!(text, "  modified: {modified}").unwrap();
        }
        let records: Vec<Record> = std::mem::take(&mut *stage.recorder.0.lock().unwrap());
        for record in records {
            let mut record = serde_json::to_value(record).unwrap();
            strip(&mut record, &mut ids);
            record.sort_all_objects();
            writeln!(text, "  {record}").unwrap();
        }
    }
    text + "\n"
}

fn echo(word: &str) -> (&'static str, String) {
    ("echo", json!({ "text": word }).to_string())
}

fn program(words: &[&str]) -> (&'static str, String) {
    let lines: Vec<_> = words.iter().map(|word| format!("host__echo {}", json!({ "text": word }))).collect();
    ("run_code", json!({ "code": lines.join("\n\n") }).to_string())
}

async fn all_transcripts() -> String {
    let no = Answer::Deny { reason: "too late".to_owned() };
    let mut text = String::new();
    for (name, answer) in [("nobody", None), ("yes", Some(Answer::Allow)), ("no", Some(no))] {
        let stage = stage(|builder| policies(builder, answer.clone()));
        let mut calls: Vec<_> = WORDS.map(echo).into();
        calls.extend([("echo", "{}".to_owned()), ("nothing", "{}".to_owned()), ("fail", "{}".to_owned())]);
        calls.push(program(&WORDS));
        text += &transcript(name, &stage, &calls).await;
        for (action, policy) in [("asks", flows()), ("denies", flows().deny(true))] {
            let stage = self::stage(|builder| policies(builder, answer.clone()).flows(policy));
            let divide = || ("divide", r#"{"a": 4, "b": 2}"#.to_owned());
            let words = ["ask", "rewrite", "question", "to-deny"];
            let mut calls = vec![echo("hello"), divide()];
            calls.extend(words.map(echo));
            calls.push(program(&words));
            text += &transcript(&format!("{name}, and a policy on flows that {action}"), &stage, &calls).await;
        }
    }
    text
}

#[tokio::test]
async fn decisions_and_their_records_are_as_before() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/decisions.txt");
    let text = all_transcripts().await;
    if std::env::var_os("FUMEHOOD_WRITE_GOLDEN").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    for (line, (found, expected)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {}", line + 1);
    }
    assert_eq!(text.lines().count(), expected.lines().count());
}
