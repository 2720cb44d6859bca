//! An executor of your own in front of the usual one: it answers repeated calls from memory. The pipeline behind it checks
//! every other call.
//!
//! `cargo run -p fumehood --example agent_executor`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood::agent::allowlist::{self, Allowlists};
use fumehood::agent::execution::ToolExecution;
use fumehood::agent::executor::{BatchOutcome, Scope, ToolExecutor};
use fumehood::agent::pipeline::PipelineBuilder;
use fumehood::boxed::BoxFuture;
use fumehood::chat::{ToolIntent, ToolSpec};
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::{Host, Load};

const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");

/// An executor that answers a repeated call from memory.
struct CachingExecutor<E> {
    inner: E,
    known: Mutex<HashMap<(String, String), ToolExecution>>,
}

impl<E: ToolExecutor> CachingExecutor<E> {
    fn recall(&self, call: &ToolIntent) -> Option<ToolExecution> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut execution = known.get(&(call.name.clone(), call.arguments.clone()))?.clone();
        // The result belongs to this call, not to the earlier one.
        execution.call = call.clone();
        execution.result.id.clone_from(&call.id);
        Some(execution)
    }

    fn remember(&self, execution: &ToolExecution) {
        let key = (execution.name().to_owned(), execution.args().to_owned());
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, execution.clone());
    }
}

impl<E: ToolExecutor> ToolExecutor for CachingExecutor<E> {
    fn specs(&self, scope: &Scope) -> Vec<ToolSpec> {
        self.inner.specs(scope)
    }

    fn execute<'a>(&'a self, calls: Vec<ToolIntent>, scope: &'a Scope) -> BoxFuture<'a, BatchOutcome> {
        Box::pin(async move {
            let recalled: Vec<Option<ToolExecution>> = calls.iter().map(|call| self.recall(call)).collect();
            let fresh = calls.into_iter().zip(&recalled).filter(|(_, known)| known.is_none()).map(|(call, _)| call);
            let outcome = self.inner.execute(fresh.collect(), scope).await;
            outcome.executions.iter().for_each(|execution| self.remember(execution));
            // The results keep the order of the calls.
            let mut made = outcome.executions.into_iter();
            let executions = recalled.into_iter().filter_map(|known| known.or_else(|| made.next())).collect();
            BatchOutcome { executions, ..outcome }
        })
    }
}

pub(crate) async fn example() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder().build()?;
    host.load(Load::path(CALCULATOR)).await?;
    let pipeline = PipelineBuilder::default()
        .provider(Arc::new(host.clone()))
        .allowlists(Allowlists { default: allowlist::DefaultAllowlist::Everything, ..Allowlists::default() })
        .build()?;
    let executor = CachingExecutor { inner: pipeline, known: Mutex::default() };
    let add = r#"{"a": 3, "b": 5}"#;
    let model = ScriptedModel::new(vec![
        ScriptedReply::call("calculator__add", add),
        ScriptedReply::call("calculator__add", add).expect_text("8"),
        ScriptedReply::text("8, both times.").expect_text("8"),
    ]);
    let mut events = host.subscribe();
    let mut agent = host.agent(Arc::new(model)).executor(Arc::new(executor)).build()?;
    let outcome = agent.run("3 + 5, twice?").await?;
    let mut ran = 0;
    while let Some(event) = events.try_next() {
        ran += usize::from(matches!(event, fumehood::Observed::Event(fumehood::Event::Started { .. })));
    }
    println!("{} The sandbox ran {ran} time(s).", outcome.text());
    assert_eq!((outcome.text(), ran), ("8, both times.", 1));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    example().await
}
