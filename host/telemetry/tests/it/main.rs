//! Spans and metrics as a collector receives them. A process has one pipeline, which all tests share.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::result::{CallResult, Metadata};
use fumehood_core::call::{Arguments, Call, CallContext};
use fumehood_core::dependency::{Dependency, Measurement, Metric};
use fumehood_core::persistence::Persistence;
use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::telemetry::{self, CallContent};
use fumehood_core::tool::definition::{Annotations, ToolDefinition};
use fumehood_core::tool::name::{Namespace, ToolName};
use fumehood_core::tool::{Changes, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall};
use fumehood_core::trace_context::{self, TraceContext};
use fumehood_server::{CallSink, RunningCalls, TrackedTools};
use fumehood_telemetry::{ExportOptions, Metrics, Telemetry};
use fumehood_tests::otlp_collector::Collector;
use fumehood_tests::skip::skip;
use serde_json::json;
use tracing::Instrument as _;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// The pipeline of this process, and the collector that it sends to.
fn stage() -> &'static (Telemetry, Collector) {
    static STAGE: OnceLock<(Telemetry, Collector)> = OnceLock::new();
    STAGE.get_or_init(|| {
        let collector = Collector::start().unwrap();
        let mut options = ExportOptions {
            endpoint: Some(collector.endpoint().parse().unwrap()),
            span_interval: Duration::from_millis(20),
            metric_interval: Duration::from_millis(50),
            service_name: "tested".to_owned(),
            content: Some(Arc::new(|tool| match tool {
                "private__call" => Persistence::Nothing,
                "redacted__call" => Persistence::redact(|_| json!("a redacted one"), |_, _| None),
                _ => Persistence::Full,
            })),
            ..ExportOptions::default()
        };
        options.headers.insert("x-key".to_owned(), "header-secret".to_owned());
        (Telemetry::install(&options, |warning| panic!("{warning}")).unwrap(), collector)
    })
}

#[test]
fn spans_arrive_with_names_kinds_and_parents() {
    let (installed, collector) = stage();
    let parent = TraceContext::parse(&format!("00-{TRACE}-{PARENT}-01"), None).unwrap();
    let server = telemetry::server_span("POST", "/v1/tools/{name}/calls", Some(&parent));
    server.in_scope(|| {
        let call = telemetry::call_span("tested__call", "id-1");
        call.in_scope(|| drop(telemetry::request_span("GET", "api.test")));
        telemetry::record_error(&call, "deadline");
        assert_eq!(trace_context::current().unwrap().trace_id(), TRACE);
        assert!(trace_context::outgoing().unwrap().is_sampled());
    });
    telemetry::record_status(&server, 504);
    drop(server);
    let server = collector.span("POST /v1/tools/{name}/calls").unwrap();
    assert_eq!((server.trace.as_str(), server.parent.as_str(), server.kind), (TRACE, PARENT, 2));
    assert_eq!(server.attributes["http.response.status_code"], "504");
    assert_eq!(server.resource["service.name"], "tested");
    let call = collector.span("execute_tool tested__call").unwrap();
    assert_eq!((&call.trace, &call.parent, call.status), (&server.trace, &server.id, 2));
    assert_eq!(call.attributes["gen_ai.tool.name"], "tested__call");
    assert_eq!(call.attributes["gen_ai.operation.name"], "execute_tool");
    assert_eq!(call.attributes["error.type"], "deadline");
    let request = collector.wait(|all| all.spans.iter().find(|span| span.parent == call.id).cloned()).unwrap();
    assert_eq!((request.name.as_str(), request.kind), ("GET", 3));
    let metrics = installed.metrics().to_text(&RunningCalls::new());
    let is_exemplar =
        |line: &str| line.starts_with("fumehood_http_request_duration_seconds_bucket") && line.contains(TRACE);
    assert!(metrics.lines().any(is_exemplar), "{metrics}");
    let exported =
        collector.wait(|all| all.histograms.iter().find(|it| it.name == "fumehood.http_request.duration").cloned());
    let exported = exported.unwrap();
    assert_eq!(exported.unit, "s");
    // Those of Prometheus: with the SDK's own, every call is in the first bucket.
    let is_bound = |line: &&str| line.starts_with("fumehood_http_request_duration_seconds_bucket");
    let bound = |line: &str| line.split_once("le=\"")?.1.split('"').next()?.parse::<f64>().ok();
    let bounds: Vec<f64> = metrics.lines().filter(is_bound).filter_map(bound).filter(|it| it.is_finite()).collect();
    assert_eq!(exported.bounds, bounds);
    assert!(bounds[0] < 0.001 && bounds[bounds.len() - 1] > 60.0, "{bounds:?}");
    let heads = collector.exported().heads;
    assert!(heads.iter().any(|head| head.contains("x-key: header-secret")), "{heads:?}");
}

/// Workers that come and go, and the calls that they have taken.
struct Workers(Mutex<Vec<&'static str>>);

static WORKER_CALLS: Metric = Metric::gauge("tested_worker_calls", "Calls that a worker runs");
static TAKEN: Metric = Metric::counter("tested_calls_taken", "Calls that workers have taken");

impl Dependency for Workers {
    fn outage(&self) -> Option<&'static str> {
        None
    }

    fn metrics(&self) -> Vec<&'static Metric> {
        vec![&WORKER_CALLS, &TAKEN]
    }

    fn measurements(&self) -> Vec<Measurement> {
        let of_worker = |name: &&'static str| WORKER_CALLS.value(3.0).label("worker", *name);
        let workers = self.0.lock().unwrap();
        workers.iter().map(of_worker).chain([TAKEN.value(7.0)]).collect()
    }
}

#[test]
fn metrics_of_a_dependency_arrive_although_it_had_no_measurements_at_first() {
    let (installed, collector) = stage();
    let workers = Arc::new(Workers(Mutex::default()));
    installed.metrics().follow_dependency(Arc::clone(&workers) as _);
    let find =
        |name: &str| collector.wait(|all| all.numbers.iter().find(|it| it.name == format!("fumehood.{name}")).cloned());
    let taken = find("tested_calls_taken").unwrap();
    assert_eq!((taken.value, taken.is_counter), (7.0, true));
    workers.0.lock().unwrap().push("w1");
    let calls = find("tested_worker_calls").unwrap();
    assert_eq!((calls.value, calls.is_counter, calls.attributes["worker"].as_str()), (3.0, false, "w1"));
}

#[test]
fn an_unsampled_parent_is_followed() {
    let (_, collector) = stage();
    let parent = TraceContext::parse("00-11111111111111111111111111111111-2222222222222222-00", None).unwrap();
    telemetry::server_span("GET", "/unsampled", Some(&parent))
        .in_scope(|| drop(telemetry::call_span("tested__unsampled", "id-2")));
    drop(telemetry::server_span("GET", "/after", None));
    collector.span("GET /after").unwrap();
    let spans = collector.exported().spans;
    assert!(!spans.iter().any(|span| span.name.contains("unsampled")), "{spans:?}");
}

/// Records a call of a tool with this argument, which answers with the same text.
fn record_call(name: &str, argument: &str) {
    let (namespace, tool) = name.split_once("__").unwrap();
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let gate = Gate::for_arguments(&schema, GateLimits::default()).unwrap();
    let definition = ToolDefinition {
        name: ToolName::parse(tool).unwrap(),
        export: None,
        title: None,
        description: "Echoes.".into(),
        input_schema: schema.into(),
        output_schema: None,
        annotations: Annotations::default(),
        mcp_members: None,
    };
    let tool = Arc::new(Tool::new(definition, gate).in_namespace(&Namespace::parse(namespace).unwrap()));
    let call = tool.validate(Arguments::Value(json!({ "text": argument }))).unwrap();
    let span = telemetry::call_span(name, "id-3");
    let content = CallContent::record_arguments(&span, &call);
    let outcome = Ok(vec![Content::text(argument)]);
    let result = CallResult { id: "id-3".into(), tool: name.into(), outcome, metadata: Metadata::default() };
    content.iter().for_each(|content| content.record_result(&span, &result));
}

#[test]
fn arguments_and_results_are_exported_as_their_policy_says() {
    let (_, collector) = stage();
    record_call("full__call", "said\u{202e}");
    let full = collector.span("execute_tool full__call").unwrap();
    assert_eq!(full.attributes["gen_ai.tool.call.arguments"], r#"{"text":"said\u{202e}"}"#);
    assert!(full.attributes["gen_ai.tool.call.result"].contains("said"), "{full:?}");
    record_call("full__long", &"x".repeat(10_000));
    let long = collector.span("execute_tool full__long").unwrap();
    assert_eq!(long.attributes["gen_ai.tool.call.arguments"].len(), 8192);
    record_call("redacted__call", "said");
    let redacted = collector.span("execute_tool redacted__call").unwrap();
    assert_eq!(redacted.attributes["gen_ai.tool.call.arguments"], r#""a redacted one""#);
    assert!(!redacted.attributes.contains_key("gen_ai.tool.call.result"), "{redacted:?}");
    record_call("private__call", "said");
    let private = collector.span("execute_tool private__call").unwrap();
    assert!(private.attributes.values().all(|value| !value.contains("said")), "{private:?}");
}

/// A provider without tools, which answers every call with the error for an unknown tool.
#[derive(Default)]
struct NoTools(Revision);

impl ToolProvider for NoTools {
    fn kind(&self) -> ProviderKind {
        ProviderKind::BuiltIn
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        Vec::new()
    }

    fn find(&self, _: &str) -> Option<Arc<Tool>> {
        None
    }

    fn call(&self, _: ValidatedCall, _: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(std::future::ready(Err(Stop::new("there are no tools"))))
    }

    fn changes(&self) -> Changes {
        self.0.subscribe()
    }
}

/// Returns tools whose calls are counted in the metrics.
fn metered(metrics: &Arc<Metrics>) -> (TrackedTools, RunningCalls) {
    let running = RunningCalls::new();
    running.subscribe(Arc::clone(metrics) as Arc<dyn CallSink>);
    (TrackedTools::new(Arc::new(NoTools::default()), running.clone()), running)
}

#[tokio::test]
async fn hostile_names_do_not_become_series() {
    let (installed, collector) = stage();
    let metrics = installed.metrics();
    let (tools, running) = metered(&metrics);
    for number in 0..2_000 {
        let call = Call::new(format!("hostile\"}}\n{number}"), "{}").actor(format!("actor-{number}"));
        assert!(!tools.dispatch(call).await.is_ok());
    }
    let text = metrics.to_text(&running);
    assert!(!text.contains("hostile"), "{text}");
    let series = text.lines().filter(|line| line.starts_with("fumehood_calls_total{")).count();
    assert!(series <= 52, "{series} series of calls");
    assert!(
        text.contains(r#"fumehood_calls_total{tool="other",outcome="unknown_tool",actor="other",tenant=""} 1950"#),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"));
    let found = collector.wait(|all| {
        let of_calls = |it: &&fumehood_tests::otlp_collector::Histogram| it.name == "gen_ai.execute_tool.duration";
        all.histograms.iter().filter(of_calls).find(|it| it.count >= 2_000).cloned()
    });
    let found = found.unwrap();
    assert_eq!((found.unit.as_str(), found.attributes["gen_ai.tool.name"].as_str()), ("s", "other"));
    assert_eq!(found.attributes["error.type"], "unknown_tool");
}

#[tokio::test]
async fn a_public_parser_reads_the_metrics() {
    let Some(python) = std::env::var_os("FUMEHOOD_PROMETHEUS_PARSER") else {
        return skip("prometheus", "FUMEHOOD_PROMETHEUS_PARSER names no Python with prometheus-client");
    };
    let metrics = stage().0.metrics();
    let (tools, running) = metered(&metrics);
    let parent = TraceContext::parse(&format!("00-{TRACE}-{PARENT}-01"), None).unwrap();
    let span = telemetry::server_span("GET", "/parsed", Some(&parent));
    assert!(!tools.dispatch(Call::new("none", "{}")).instrument(span).await.is_ok());
    let program = "import sys\n\
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n\
        samples = [s for f in parse(sys.argv[1]) for s in f.samples]\n\
        print(sorted({s.name for s in samples}), [s.exemplar.labels for s in samples if s.exemplar])";
    let text = metrics.to_text(&running);
    let parsed = std::process::Command::new(python).args(["-c", program, &text]).output().unwrap();
    let found = String::from_utf8_lossy(&parsed.stdout).into_owned();
    assert!(parsed.status.success(), "{}: {text}", String::from_utf8_lossy(&parsed.stderr));
    for part in ["fumehood_calls_total", "fumehood_call_duration_seconds_bucket", TRACE] {
        assert!(found.contains(part), "{part}: {found}");
    }
}
