//! Guardrails: a rule of your own that changes a call, and a judge that is a model, for tools without annotations.
//!
//! `cargo run -p fumehood --example agent_guardrail`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use fumehood::agent::guardrail::ModelJudge;
use fumehood::chat::{ModelError, Request, Response};
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::policy::{Decision, PolicyFn};
use fumehood::{Arguments, CallContext, Host, Load, ValidatedCall};

const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");

pub(crate) async fn example() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder().build()?;
    host.load(Load::path(CALCULATOR)).await?;

    // A rule gets the call and returns a decision. The agent gets a note about the change.
    let clamp = PolicyFn::new("at_most_a_hundred", |call: &ValidatedCall, _: &CallContext| {
        let mut arguments = call.arguments().clone();
        match arguments.get_mut("a") {
            Some(a) if a.as_i64().is_some_and(|a| a > 100) => *a = 100.into(),
            _ => return Decision::Allow,
        }
        Decision::Rewrite { to: Arguments::Value(arguments), note: Some("`a` was cut to 100".to_owned()) }
    });
    // In place of a small model. It gets the call as data, and any reply but a valid verdict is a denial.
    let small = |request: &Request| {
        let call = request.messages.last().map(|message| message.content.as_str()).unwrap_or_default();
        let allowed = !call.contains("multiply");
        let verdict = if allowed { r#"{"verdict":"allow"}"# } else { r#"{"verdict":"deny","reason":"no products"}"# };
        Ok::<_, ModelError>(Response::text(verdict))
    };
    let judged = ["calculator__add", "calculator__multiply"].map(str::to_owned);
    let judge = ModelJudge::new(Arc::new(small), "Sums are fine. Products are not.").always(judged.into());

    let model = ScriptedModel::new(vec![
        ScriptedReply::call("calculator__add", r#"{"a": 3000, "b": 5}"#),
        ScriptedReply::call("calculator__multiply", r#"{"a": 2, "b": 2}"#).expect_text("105"),
        ScriptedReply::text("105, and I may not multiply.").expect_text("no products"),
    ]);
    let agent = host.agent(Arc::new(model)).allow_everything();
    let agent = agent.pipeline(|pipeline| pipeline.rule(Arc::new(clamp)).judge(Arc::new(judge)));
    let outcome = agent.build()?.run("3000 + 5, and 2 * 2?").await?;
    for execution in outcome.run.executions() {
        let modified = execution.modified.as_deref().unwrap_or("unchanged");
        println!("{}: {:?}, {modified}. {}", execution.name(), execution.status, execution.error_message());
    }
    assert_eq!(outcome.text(), "105, and I may not multiply.");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    example().await
}
