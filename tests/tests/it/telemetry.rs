//! Spans and events of loading, calls, host calls, requests and approvals, as a subscriber of `tracing` receives them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fumehood::agent::budget::Budget;
use fumehood::agent::session::SessionConfig;
use fumehood::boxed::BoxFuture;
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::permission::KeyValueQuota;
use fumehood::policy::{Answer, Approver, Decision, PolicyFn, Question};
use fumehood::{Call, CallContext, Grant, Host, Load, ValidatedCall};
use fumehood_tests::{component, contract};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::http::server::{Server, ok};
use crate::http::stage::{Names, local};

/// A span or an event: its name, its fields, and the fields of the spans around it.
#[derive(Debug, Clone, Default)]
struct TraceItem {
    name: String,
    fields: BTreeMap<String, String>,
    around: Vec<BTreeMap<String, String>>,
}

impl Visit for TraceItem {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}").trim_matches('"').to_owned();
        match field.name() {
            "message" => self.name = value,
            name => drop(self.fields.insert(name.to_owned(), value)),
        }
    }
}

/// Everything of the target `fumehood` that this process has seen of components whose names begin with `telemetry`.
fn seen() -> &'static Mutex<Vec<TraceItem>> {
    static SEEN: OnceLock<Mutex<Vec<TraceItem>>> = OnceLock::new();
    SEEN.get_or_init(Mutex::default)
}

struct Collector;

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut span = TraceItem { name: attributes.metadata().name().to_owned(), ..TraceItem::default() };
        attributes.record(&mut span);
        context.span(id).unwrap().extensions_mut().insert(span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<TraceItem>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut found = TraceItem::default();
        event.record(&mut found);
        if let Some(scope) = context.event_scope(event) {
            found.around.extend(scope.filter_map(|span| Some(span.extensions().get::<TraceItem>()?.fields.clone())));
        }
        keep(found);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let Some(mut found) = span.extensions_mut().remove::<TraceItem>() else { return };
        let around = span.scope().skip(1).filter_map(|span| Some(span.extensions().get::<TraceItem>()?.fields.clone()));
        found.around = around.collect();
        keep(found);
    }
}

/// Keeps what these tests caused. Other tests of this process make calls, too.
fn keep(found: TraceItem) {
    let is_ours = |fields: &BTreeMap<String, String>| fields.values().any(|value| value.starts_with("telemetry"));
    if is_ours(&found.fields) || found.around.iter().any(is_ours) {
        seen().lock().unwrap_or_else(PoisonError::into_inner).push(found);
    }
}

fn subscribe() {
    static ONCE: OnceLock<()> = OnceLock::new();
    let filter =
        tracing_subscriber::filter::Targets::new().with_target(fumehood_core::telemetry::TARGET, tracing::Level::TRACE);
    ONCE.get_or_init(|| {
        let subscriber = tracing_subscriber::registry().with(Collector.with_filter(filter));
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// Returns what was seen under this name, within or about the component.
fn find(name: &str, about: &str) -> Vec<TraceItem> {
    let is_about = |fields: &BTreeMap<String, String>| fields.values().any(|value| value.starts_with(about));
    let seen = seen().lock().unwrap_or_else(PoisonError::into_inner);
    let found = seen.iter().filter(|seen| seen.name == name);
    found.filter(|seen| is_about(&seen.fields) || seen.around.iter().any(is_about)).cloned().collect()
}

#[tokio::test]
async fn spans_name_the_tool_and_its_outcome() {
    subscribe();
    let host = Host::builder().build().unwrap();
    let loaded = host.load(Load::bytes("telemetry-echo", contract("echo").unwrap()).approval(None)).await.unwrap();
    host.reload(Load::bytes("telemetry-echo", contract("echo").unwrap())).await.unwrap();
    assert!(host.call(Call::new("telemetry-echo__echo", json!({"a": 1})).id("telemetry-1")).await.is_ok());
    assert!(!host.call(Call::new("telemetry-echo__\u{1b}none", json!({}))).await.is_ok());

    let loads = find("load_component", "telemetry-echo");
    assert_eq!(loads[0].fields["fumehood.component.digest"], loaded.digest().to_string());
    let approval = &find("approval", "telemetry-echo")[0];
    assert!(approval.fields["fumehood.approval"].contains("approved"), "{approval:?}");
    let call = &find("execute_tool", "telemetry-echo")[0].fields;
    assert_eq!(call["gen_ai.operation.name"], "execute_tool");
    assert_eq!(call["gen_ai.tool.name"], "telemetry-echo__echo");
    assert_eq!(call["gen_ai.tool.call.id"], "telemetry-1");
    assert_eq!(call["otel.name"], "execute_tool telemetry-echo__echo");
    assert!(call["fumehood.fuel_used"].parse::<u64>().unwrap() > 0);
    assert!(!call.contains_key("error.type"));
    let refused = &find("tool_call_refused", "telemetry-echo__")[0].fields;
    assert_eq!(refused["error.type"], "unknown_tool");
    assert_eq!(refused["gen_ai.tool.name"], "telemetry-echo__\\\\u{1b}none");
}

#[tokio::test]
async fn requests_and_host_calls_are_within_their_call() {
    subscribe();
    let server = Server::start(|stream, _| ok(stream, "hello"));
    let host = Host::builder().resolver(Names::local()).build().unwrap();
    let grant = local(&[&format!("GET http://{}/**", server.at("api.test"))]);
    host.load(Load::bytes("telemetry-http", component("fetch").unwrap()).grant(grant)).await.unwrap();
    let request = json!({
        "method": "GET", "scheme": "http", "authority": server.at("api.test"), "path": "/secret-path", "headers": [],
        "send": 0, "keep": 4096, "patience-ms": 0,
    });
    assert!(host.call(Call::new("telemetry-http__fetch", request)).await.is_ok());
    let store = Grant::none().with_key_value(KeyValueQuota::new(1 << 16).unwrap());
    host.load(Load::bytes("telemetry-store", component("key-value").unwrap()).grant(store)).await.unwrap();
    assert!(host.call(Call::new("telemetry-store__get", json!({"key": "secret-key"}))).await.is_ok());

    let request = &find("http_request", "telemetry-http")[0];
    assert_eq!(request.fields["http.request.method"], "GET");
    assert_eq!(request.fields["server.address"], server.at("api.test"));
    assert_eq!(request.fields["http.response.status_code"], "200");
    assert_eq!(request.around[0]["gen_ai.tool.name"], "telemetry-http__fetch");
    let step = &find("host_call", "telemetry-store")[0];
    assert_eq!(step.fields["fumehood.host_call"], "key-value.get");
    assert_eq!(step.around[0]["gen_ai.tool.name"], "telemetry-store__get");
    // Nothing of what a tool was given or asked for is part of a span.
    assert!(!format!("{:?}", seen().lock().unwrap()).contains("secret-"));
}

/// An approver that allows calls, and no more turns.
struct CallApprover;

impl Approver for CallApprover {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let answer = match question {
            Question::Call(_) => Answer::Allow,
            Question::Budget(_) => Answer::no(),
        };
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::test]
async fn answers_of_an_approver_are_events() {
    subscribe();
    let host = Host::builder().build().unwrap();
    host.load(Load::bytes("telemetry-asked", contract("echo").unwrap())).await.unwrap();
    let call = ScriptedReply::call("telemetry-asked__echo", r#"{"a": "secret-argument"}"#);
    let model = ScriptedModel::new(vec![call, ScriptedReply::text("done")]);
    let ask = PolicyFn::new("ask", |_: &ValidatedCall, _: &CallContext| Decision::ask("may it?"));
    let budget = Budget { turns: 1, ..Budget::default() };
    let config = SessionConfig { id: "telemetry-session".to_owned(), budget, ..SessionConfig::default() };
    let agent = host.agent(Arc::new(model)).allow_everything().config(config);
    let agent = agent.pipeline(|pipeline| pipeline.rule(Arc::new(ask))).approver(Arc::new(CallApprover));
    agent.build().unwrap().run("go").await.unwrap();

    let call = &find("approval", "telemetry-asked__echo")[0].fields;
    assert_eq!(call["gen_ai.tool.name"], "telemetry-asked__echo");
    assert!(!call["gen_ai.tool.call.id"].is_empty());
    assert_eq!(call["fumehood.approval"], "allowed");
    // The ids of the session's calls begin with its name, too.
    let answers = find("approval", "telemetry-session");
    let turns = answers.iter().find(|answer| answer.fields.contains_key("gen_ai.conversation.id")).unwrap();
    assert_eq!(turns.fields["gen_ai.conversation.id"], "telemetry-session");
    assert_eq!(turns.fields["fumehood.approval"], "denied");
}
