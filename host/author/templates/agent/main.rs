//! An assistant as a service: a channel with a list of tools, a policy that asks a person, and a built-in tool.
//!
//! Questions are read from standard input, one per line. `ASSISTANT_MODEL` names the model, such as `ollama:llama3.2`. Without it
//! a script answers, so you can try everything without an API key.

use std::io::{BufRead as _, Write};
use std::sync::Arc;
use std::time::Duration;

use fumehood::agent::budget::Budget;
use fumehood::agent::registry::{BuiltIn, BuiltIns};
use fumehood::boxed::BoxFuture;
use fumehood::chat::Model;
use fumehood::model::{ModelSpec, Provider, ProviderConfig, ScriptedModel, ScriptedReply};
use fumehood::policy::{Answer, Approver, Decision, PolicyFn, Question};
use fumehood::{Annotations, Arguments, CallContext, Host, Load, ValidatedCall};
use schemars::JsonSchema;
use serde::Deserialize;

/// The channel that questions come from. It may call the tools of [`CHANNEL_TOOLS`] and no others.
const CHANNEL: &str = "support";
const CHANNEL_TOOLS: [&str; 1] = ["open_ticket"];

type Failure = Box<dyn std::error::Error>;

/// Opens a ticket for a problem.
#[derive(Debug, Deserialize, JsonSchema)]
struct OpenTicket {
    /// The problem, in one sentence.
    problem: String,
    /// True if it cannot wait.
    #[serde(default)]
    urgent: bool,
}

/// Returns the built-in tools, which run in this process. Only code of this project belongs here.
fn built_ins() -> Result<BuiltIns, Failure> {
    let open = BuiltIn::new("open_ticket", "Opens a ticket for a problem.", |args: OpenTicket, _call| async move {
        let queue = if args.urgent { "now" } else { "later" };
        Ok(format!("ticket 1 is open, for {queue}: {}", args.problem))
    })?;
    let annotations = Annotations { read_only: Some(false), destructive: Some(false), ..Annotations::default() };
    let tools = BuiltIns::default();
    tools.register(open.with_annotations(annotations))?;
    Ok(tools)
}

/// Asks a person before an urgent ticket is opened.
fn policy() -> PolicyFn<impl Fn(&ValidatedCall, &CallContext) -> Decision<Arguments>> {
    PolicyFn::new("urgent_tickets", |call: &ValidatedCall, _: &CallContext| match call.arguments().get("urgent") {
        Some(urgent) if urgent.as_bool() == Some(true) => Decision::ask("may it open an urgent ticket?"),
        _ => Decision::Allow,
    })
}

/// Denies every question. A service with users would ask them here.
#[derive(Debug)]
struct DenyAll;

impl Approver for DenyAll {
    fn ask<'a>(&'a self, _question: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::Deny { reason: "no person is available to decide".to_owned() }))
    }
}

fn model() -> Result<Arc<dyn Model>, Failure> {
    match std::env::var("ASSISTANT_MODEL") {
        Ok(name) => Ok(Arc::new(Provider::new(&ModelSpec::parse(&name)?, ProviderConfig::default())?)),
        Err(_) => Ok(Arc::new(ScriptedModel::new(vec![
            ScriptedReply::call("open_ticket", r#"{"problem": "the printer is on fire", "urgent": true}"#),
            ScriptedReply::call("open_ticket", r#"{"problem": "the printer is on fire"}"#)
                .expect_text("no person is available"),
            ScriptedReply::text("I opened ticket 1.").expect_text("ticket 1 is open, for later"),
        ]))),
    }
}

/// Answers each question on a line of `output`.
pub(crate) async fn serve(
    host: &Host,
    questions: impl Iterator<Item = std::io::Result<String>>,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let mut agent = host
        .agent(model()?)
        .built_ins(Arc::new(built_ins()?))
        .channel(CHANNEL, CHANNEL_TOOLS)
        .use_channel(CHANNEL)
        .prompt("You help people with their printers. Open a ticket for what you cannot solve.")
        .budget(Budget { turns: 6, wall_time: Some(Duration::from_secs(60)), ..Budget::default() })
        .pipeline(|pipeline| pipeline.rule(Arc::new(policy())))
        .approver(Arc::new(DenyAll))
        .build()?;
    for question in questions {
        let outcome = agent.run(&question?).await?;
        writeln!(output, "{}", outcome.text())?;
    }
    agent.close().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let host = Host::builder().build()?;
    // Components run in the sandbox. Add their tools to CHANNEL_TOOLS, as `component__tool`.
    for component in std::env::args_os().skip(1) {
        host.load(Load::path(std::path::PathBuf::from(component))).await?;
    }
    serve(&host, std::io::stdin().lock().lines(), &mut std::io::stdout()).await?;
    host.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
