//! Hooks around each call: one before it, which denies it, and one after it, which removes a secret from a result before
//! the model, the log or an observer gets it.
//!
//! `cargo run -p fumehood --example agent_hook`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeMap;
use std::sync::Arc;

use fumehood::agent::registry::{BuiltIn, BuiltInError, BuiltIns};
use fumehood::boxed::BoxFuture;
use fumehood::hooks::{Redaction, ToolPatterns};
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::policy::{Decision, Policies, Policy, Ruling};
use fumehood::{CallContext, CallError, Host, Tool, ValidatedCall};

/// A hook that denies to close accounts.
struct NoClosing;

impl Policy for NoClosing {
    fn name(&self) -> &str {
        "no_closing"
    }

    fn applies_to(&self, tool: &Tool) -> bool {
        tool.full_name() == "close_account"
    }

    fn before<'a>(&'a self, _: &'a ValidatedCall, _: &'a CallContext) -> BoxFuture<'a, Result<Ruling, CallError>> {
        Box::pin(std::future::ready(Ok(Decision::deny("accounts are not closed here").into())))
    }
}

pub(crate) async fn example() -> Result<(), Box<dyn std::error::Error>> {
    // Functions of your own can be tools, too. They run in your process: only tools of components are sandboxed.
    let account =
        |_: BTreeMap<String, String>, _| async { Ok::<_, BuiltInError>("token=hunter2, balance=12".to_owned()) };
    let tools = BuiltIns::default();
    tools.register(BuiltIn::new("account", "Shows the account.", account)?)?;
    tools.register(BuiltIn::new("close_account", "Closes the account.", account)?)?;

    let redact = Redaction::new("redact", ToolPatterns::default(), "hunter2", "[redacted]")?;
    let hooks: Policies = [Arc::new(NoClosing) as Arc<dyn Policy>, Arc::new(redact)].into_iter().collect();

    let model = ScriptedModel::new(vec![
        ScriptedReply::call("account", "{}"),
        ScriptedReply::call("close_account", "{}").expect_text("token=[redacted], balance=12"),
        ScriptedReply::text("12, and it stays open.").expect_text("not closed here"),
    ]);
    let host = Host::builder().build()?;
    let agent = host.agent(Arc::new(model)).allow_everything().built_ins(Arc::new(tools)).hooks(hooks);
    let outcome = agent.build()?.run("What is left? Then close it.").await?;
    for execution in outcome.run.executions() {
        println!("{}: {}", execution.name(), execution.result.text().unwrap_or(execution.error_message().into()));
    }
    assert_eq!(outcome.text(), "12, and it stays open.");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    example().await
}
