//! Hooks around each call: one before it, which blocks, and one after it, which removes a secret from a result before
//! the model, the log or an observer gets it.
//!
//! `cargo run -p fumehood --example agent_hook`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeMap;
use std::sync::Arc;

use fumehood::agent::hook::{AfterAction, BeforeAction, CompletedToolUse, Field, HookFn, ToolUse};
use fumehood::agent::registry::{BuiltIn, BuiltInError, BuiltIns};
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::{Content, Host};

pub(crate) async fn example() -> Result<(), Box<dyn std::error::Error>> {
    // Functions of your own can be tools, too. They run in your process: only tools of components are sandboxed.
    let account =
        |_: BTreeMap<String, String>, _| async { Ok::<_, BuiltInError>("token=hunter2, balance=12".to_owned()) };
    let tools = BuiltIns::default();
    tools.register(BuiltIn::new("account", "Shows the account.", account)?)?;
    tools.register(BuiltIn::new("close_account", "Closes the account.", account)?)?;

    let block = HookFn::new("no_closing", 10, &[], |call: &mut ToolUse| match call.tool.as_str() {
        "close_account" => BeforeAction::Block { message: Some("accounts are not closed here".to_owned()) },
        _ => BeforeAction::Continue,
    });
    // A hook declares the fields that it may change; other changes are undone.
    let redact = HookFn::new("redact", 0, &[Field::Result], |used: &mut CompletedToolUse| {
        if let Ok(parts) = &mut used.outcome {
            for part in parts {
                if let Content::Text { text } = part {
                    *text = text.expose_raw().replace("hunter2", "[redacted]").into();
                }
            }
        }
        AfterAction::Continue
    });

    let model = ScriptedModel::new(vec![
        ScriptedReply::call("account", "{}"),
        ScriptedReply::call("close_account", "{}").expect_text("token=[redacted], balance=12"),
        ScriptedReply::text("12, and it stays open.").expect_text("not closed here"),
    ]);
    let host = Host::builder().build()?;
    let agent = host.agent(Arc::new(model)).allow_everything().built_ins(Arc::new(tools));
    let agent = agent.pipeline(|pipeline| pipeline.before(Arc::new(block)).after(Arc::new(redact)));
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
