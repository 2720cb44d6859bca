//! Code mode in front of a provider of tools, without a pipeline.

use std::sync::Arc;
use std::time::Duration;

use fumehood_agent::agent::SystemClock;
use fumehood_agent::code::{CodeMode, CodeProvider};
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltIns};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallResult;
use fumehood_core::call::{Call, CallContext, CancellationToken};
use fumehood_core::tool::{Changes, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::line_interpreter::Lines;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A provider that hides one of its tools, and would dispatch calls of it all the same.
struct HidingProvider(BuiltIns);

impl ToolProvider for HidingProvider {
    fn kind(&self) -> ProviderKind {
        ProviderKind::BuiltIn
    }
    fn tools(&self) -> Vec<Arc<Tool>> {
        self.0.tools().into_iter().filter(|tool| tool.full_name() != "hidden").collect()
    }
    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.0.find(name).filter(|_| name != "hidden")
    }
    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        self.0.call(call, context)
    }
    fn changes(&self) -> Changes {
        self.0.changes()
    }
    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        self.0.dispatch(call)
    }
}

fn provider(mode: CodeMode) -> CodeProvider {
    let tools = BuiltIns::default();
    let who = |_: Nothing, context: CallContext| async move {
        Ok::<_, BuiltInError>(format!("{} for {}", context.id, context.actor.as_deref().unwrap_or("nobody")))
    };
    tools.register(BuiltIn::new("who", "Says who calls.", who).unwrap()).unwrap();
    tools.register(BuiltIn::new("hidden", "Is hidden.", who).unwrap()).unwrap();
    let slow = |_: Nothing, _: CallContext| async move {
        std::thread::sleep(Duration::from_millis(5));
        Ok::<_, BuiltInError>(())
    };
    tools.register(BuiltIn::new("slow", "Takes its time without waiting.", slow).unwrap()).unwrap();
    let forever = |_: Nothing, _: CallContext| async move {
        std::future::pending::<()>().await;
        Ok::<_, BuiltInError>(())
    };
    tools.register(BuiltIn::new("forever", "Waits.", forever).unwrap()).unwrap();
    CodeProvider::new(Arc::new(HidingProvider(tools)), Arc::new(Lines::default()), mode, Arc::new(SystemClock)).unwrap()
}

async fn values(provider: &CodeProvider, code: &str) -> Value {
    let call = Call::new("run_code", json!({"code": code})).id("c").actor("ada");
    let result = provider.dispatch(call).await;
    let text = result.text().unwrap_or_else(|| panic!("{result:?}")).into_owned();
    serde_json::from_str::<Value>(&text).unwrap()["result"].take()
}

#[tokio::test]
async fn programs_call_what_the_provider_offers_on_behalf_of_the_caller() {
    let provider = provider(CodeMode::beside_direct_calls());
    let names: Vec<_> = provider.tools().iter().map(|tool| tool.full_name().to_owned()).collect();
    assert_eq!(names, ["forever", "run_code", "search_tools", "slow", "who"]);
    assert_eq!(values(&provider, "host__who").await, json!(["c.1 for ada"]));
    for hidden in ["host__hidden", "hidden", "run_code", "search_tools"] {
        assert_eq!(values(&provider, hidden).await[0][0], "unknown_tool", "{hidden}");
    }
    let direct = provider.dispatch(Call::new("who", "{}").id("d")).await;
    assert_eq!(direct.text().as_deref(), Some("d for nobody"));
    let wrong = provider.dispatch(Call::new("run_code", r#"{"code": 1}"#)).await;
    assert_eq!(wrong.error().unwrap().kind, ErrorKind::InvalidArguments);
}

#[tokio::test]
async fn other_tools_are_hidden_where_only_programs_call_them() {
    let provider = provider(CodeMode::only());
    assert_eq!(provider.tools().len(), 2);
    let refused = provider.dispatch(Call::new("who", "{}")).await;
    assert_eq!(refused.error().unwrap().kind, ErrorKind::UnknownTool);
    assert_eq!(values(&provider, "host__who").await, json!(["c.1 for ada"]));
    let found = provider.dispatch(Call::new("search_tools", r#"{"query": "calls"}"#)).await;
    assert!(found.text().unwrap().contains("who("), "{found:?}");
}

#[tokio::test]
async fn cancelling_the_call_of_a_program_ends_it() {
    let provider = provider(CodeMode::only());
    let token = CancellationToken::new();
    let call = Call::new("run_code", json!({"code": "host__forever"})).cancelled_by(token.clone());
    let (result, ()) = tokio::join!(provider.dispatch(call), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        token.cancel();
    });
    assert_eq!(result.error().unwrap().kind, ErrorKind::Cancelled);
}

#[tokio::test]
async fn calls_that_are_made_at_once_leave_others_their_turn() {
    let provider = provider(CodeMode::only());
    let code = vec!["host__slow"; 16].join("\n");
    let mut work = std::pin::pin!(values(&provider, &code));
    let mut polls = 0;
    let mut longest = Duration::ZERO;
    std::future::poll_fn(|cx| {
        let started = std::time::Instant::now();
        let polled = work.as_mut().poll(cx);
        polls += 1;
        longest = longest.max(started.elapsed());
        polled
    })
    .await;
    assert!(polls >= 8, "16 calls of 5 ms took {polls} polls, one of them {longest:?}");
}
