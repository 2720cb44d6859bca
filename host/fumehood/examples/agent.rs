//! A whole agent: a host, a sandboxed tool, a budget, a person to ask, and a log that can be verified afterwards.
//!
//! `cargo run -p fumehood --example agent`
//!
//! The model is a script, so that it runs without a key. With a provider instead:
//! `Provider::new(&ModelSpec::parse("openai:gpt-5-mini")?, ProviderConfig::default())?`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::time::Duration;

use fumehood::agent::agent::AgentEvent;
use fumehood::agent::budget::Budget;
use fumehood::boxed::BoxFuture;
use fumehood::event_log::{Options, Reader};
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::policy::{Answer, Approver, Decision, PolicyFn, Question};
use fumehood::{CallContext, Host, Load, ValidatedCall};

const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");

/// An approver that allows everything. A real one asks a person.
struct AllowAll;

impl Approver for AllowAll {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        println!("somebody is asked: {}", question.text());
        Box::pin(std::future::ready(Answer::Allow))
    }
}

pub(crate) async fn example() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder().build()?;
    host.load(Load::path(CALCULATOR)).await?;

    let model = ScriptedModel::new(vec![
        ScriptedReply::call("calculator__add", r#"{"a": 3, "b": "five"}"#),
        ScriptedReply::call("calculator__add", r#"{"a": 3, "b": 5}"#).expect_text("expected a number"),
        ScriptedReply::call("calculator__multiply", r#"{"a": 8, "b": 2}"#).expect_text("8"),
        ScriptedReply::text("(3 + 5) * 2 is 16.").expect_text("16"),
    ]);
    let ask = PolicyFn::new("large_numbers", |call: &ValidatedCall, _: &CallContext| {
        match call.arguments().get("a").and_then(serde_json::Value::as_i64) {
            Some(a) if a > 5 => Decision::ask(format!("may it calculate with {a}?")),
            _ => Decision::Allow,
        }
    });

    let folder = std::env::temp_dir().join(format!("fumehood-example-{}", std::process::id()));
    let log = folder.join("events.db");
    let mut agent = host
        .agent(Arc::new(model))
        .allow(["calculator__add", "calculator__multiply"])
        .prompt("You calculate with tools, never in your head.")
        .actor("ann")
        .budget(Budget { turns: 6, wall_time: Some(Duration::from_secs(30)), ..Budget::default() })
        .pipeline(|pipeline| pipeline.rule(Arc::new(ask)))
        .approver(Arc::new(AllowAll))
        .event_log(&log)
        .build()?;
    agent.tap().wiretap(|event| {
        if let AgentEvent::Record(record) = event {
            println!("{:<16} {}", record.kind, record.tool.as_deref().unwrap_or_default());
        }
    });

    let outcome = agent.run("What is (3 + 5) * 2?").await?;
    println!("\n{} ({})", outcome.text(), outcome.ending.as_str());
    assert_eq!(outcome.text(), "(3 + 5) * 2 is 16.");
    agent.close().await?;

    let report = Reader::open(&log, &Options::default())?.verify(None)?;
    println!("the log is {}", if report.finding.is_none() { "as it was written" } else { "not what was written" });
    assert!(report.finding.is_none());
    std::fs::remove_dir_all(&folder)?;
    host.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    example().await
}
