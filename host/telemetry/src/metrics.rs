//! The metrics of calls, and their text for Prometheus.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use fumehood_core::call::result::CallResult;
use fumehood_core::dependency::{Dependency, Measurement, MetricKind};
use fumehood_core::tool::ToolProvider;
use fumehood_core::trace_context;
use fumehood_server::{CallSink, EndedCall, RunningCalls};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use crate::export::ExportCounts;
use crate::histograms::{BYTES, Buckets, COUNTS, Exemplar, FUEL, Histograms, Labels, SECONDS};
use crate::instruments::Instruments;
use crate::labels::OK;
use crate::live::RecentOutcomes;
use crate::tool_metrics::{ToolFamilies, ToolMetrics, ToolTable};

/// Metrics of calls that have ended, for [`RunningCalls::subscribe`]: by tool, outcome, actor and tenant, with a bounded number of
/// series whatever tools and clients say.
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood_server::RunningCalls;
/// use fumehood_telemetry::Metrics;
///
/// let running = RunningCalls::new();
/// let metrics = Arc::new(Metrics::default());
/// running.subscribe(Arc::clone(&metrics) as _);
/// // In the format of OpenMetrics, which Prometheus reads.
/// assert!(metrics.to_text(&running).contains("fumehood_calls_running 0"));
/// ```
pub struct Metrics {
    registry: Registry,
    tools: ToolTable,
    host_calls: Histograms,
    http_requests: Histograms,
    model_requests: Histograms,
    repairs: Family<Labels, Counter>,
    recent: RecentOutcomes,
    counts: Arc<ExportCounts>,
    instruments: Option<Instruments>,
    dependencies: RwLock<Vec<Arc<dyn Dependency>>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(Arc::default(), None)
    }
}

fn register_histograms(
    registry: &mut Registry,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    buckets: Buckets,
) -> Histograms {
    let family = Histograms::new_with_constructor(buckets);
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family.clone()),
        None => registry.register(name, help, family.clone()),
    }
    family
}

fn gauge_of(count: usize) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Registers measurements.
fn register_measurements(registry: &mut Registry, measurements: impl Iterator<Item = Measurement>) {
    let mut gauges = BTreeMap::<_, Family<Labels, Gauge<f64, AtomicU64>>>::new();
    let mut counters = BTreeMap::<_, Family<Labels, Counter<f64, AtomicU64>>>::new();
    for Measurement { metric, labels, value, .. } in measurements {
        match metric.kind {
            MetricKind::Gauge if labels.is_empty() => {
                registry.register(metric.name, metric.help, ConstGauge::new(value));
            }
            MetricKind::Counter if labels.is_empty() => {
                registry.register(metric.name, metric.help, ConstCounter::new(value));
            }
            MetricKind::Gauge => {
                gauges.entry(metric).or_default().get_or_create_owned(&labels).set(value);
            }
            MetricKind::Counter => {
                counters.entry(metric).or_default().get_or_create_owned(&labels).inc_by(value);
            }
        }
    }
    gauges.into_iter().for_each(|(metric, family)| registry.register(metric.name, metric.help, family));
    counters.into_iter().for_each(|(metric, family)| registry.register(metric.name, metric.help, family));
}

impl Metrics {
    pub(crate) fn new(counts: Arc<ExportCounts>, instruments: Option<Instruments>) -> Self {
        let mut registry = Registry::with_prefix("fumehood");
        let calls = Family::default();
        registry.register("calls", "Calls of tools by outcome: `ok` or the kind of the failure", calls.clone());
        let repairs = Family::default();
        registry.register("argument_repairs", "Repairs of arguments of models and MCP clients", repairs.clone());
        let mut add = |name, help, unit, buckets| register_histograms(&mut registry, name, help, unit, buckets);
        let families = ToolFamilies {
            calls,
            duration: add(
                "call_duration",
                "Time from leaving the queue to the end of a call",
                Some(Unit::Seconds),
                SECONDS,
            ),
            queue: add("call_queue", "Time that a call waited for a place", Some(Unit::Seconds), SECONDS),
            fuel: add("call_fuel", "Fuel that a call used", None, FUEL),
            memory: add("call_memory_peak", "Peak size of a call's memories and tables", Some(Unit::Bytes), BYTES),
            requests: add("call_http_requests", "HTTP requests that a call made or was refused", None, COUNTS),
        };
        let host_calls =
            add("host_call_duration", "Time of host functions that wait for something", Some(Unit::Seconds), SECONDS);
        let http_requests =
            add("http_request_duration", "Time of HTTP requests of tools", Some(Unit::Seconds), SECONDS);
        let model_requests = add("model_request_duration", "Time of requests to models", Some(Unit::Seconds), SECONDS);
        Self {
            registry,
            tools: ToolTable::new(families),
            host_calls,
            http_requests,
            model_requests,
            repairs,
            recent: RecentOutcomes::default(),
            counts,
            instruments,
            dependencies: RwLock::default(),
        }
    }

    /// Lets tools that `loaded` does not have any more make room for others, once there are metrics of 200 tools. Without this,
    /// the first 200 keep theirs. The tools are followed for as long as somebody else holds them.
    pub fn follow_tools(&self, loaded: &Arc<dyn ToolProvider>) {
        self.tools.follow(loaded);
    }

    /// Adds the measurements of a part of the service.
    pub fn follow_dependency(&self, dependency: Arc<dyn Dependency>) {
        self.instruments.iter().for_each(|instruments| instruments.observe(&dependency));
        self.dependencies.write().unwrap_or_else(PoisonError::into_inner).push(dependency);
    }

    /// Returns the numbers of calls that ended in the last minute, by outcome: those of a tenant, or of all.
    pub(crate) fn recent_outcomes(&self, only: Option<&str>) -> BTreeMap<String, u64> {
        self.recent.totals(only)
    }

    /// Records the end of a call.
    fn record_call(&self, call: &EndedCall<'_>) {
        let tool = self.tools.get(call.tool);
        let result = call.result;
        let outcome = result.error().map_or(OK, |error| error.kind.as_str());
        self.tools.count(&tool, outcome, call.actor, call.tenant.map(|tenant| &**tenant));
        self.recent.add(outcome, call.tenant);
        if let Some(instruments) = &self.instruments {
            instruments.record_call(&tool.label, outcome, &result.metadata);
        }
        self.record_costs(&tool, result);
    }

    fn record_costs(&self, tool: &ToolMetrics, result: &CallResult) {
        let metadata = &result.metadata;
        let exemplar = Exemplar::new(trace_context::current().as_ref());
        exemplar.observe(&tool.duration, metadata.duration.as_secs_f64());
        exemplar.observe(&tool.queue, metadata.queued.as_secs_f64());
        #[allow(clippy::cast_precision_loss, reason = "histograms need no more than 52 bits")]
        {
            exemplar.observe(&tool.fuel, metadata.fuel_used as f64);
            exemplar.observe(&tool.memory, metadata.peak_memory as f64);
            exemplar.observe(&tool.requests, metadata.requests.len() as f64);
        }
    }

    /// Records the duration of a host function, by its name from a closed set.
    pub(crate) fn record_host_call(&self, function: &str, duration: Duration, exemplar: &Exemplar) {
        let labels = vec![("function", function.to_owned())];
        exemplar.observe(&self.host_calls.get_or_create(&labels), duration.as_secs_f64());
        self.instruments.iter().for_each(|instruments| instruments.record_host_call(function, duration));
    }

    /// Records the duration of an HTTP request of a tool.
    pub(crate) fn record_http_request(&self, duration: Duration, exemplar: &Exemplar) {
        exemplar.observe(&self.http_requests.get_or_create(&Vec::new()), duration.as_secs_f64());
        self.instruments.iter().for_each(|instruments| instruments.record_http_request(duration));
    }

    /// Records the duration of a request to a model, by the kind of its provider.
    pub(crate) fn record_model_request(&self, provider: &str, duration: Duration, exemplar: &Exemplar) {
        let labels = vec![("provider", provider.to_owned())];
        exemplar.observe(&self.model_requests.get_or_create(&labels), duration.as_secs_f64());
        self.instruments.iter().for_each(|instruments| instruments.record_model_request(provider, duration));
    }

    /// Counts a repair of arguments, by its kind from a closed set.
    pub(crate) fn record_repair(&self, kind: String) {
        self.repairs.get_or_create_owned(&vec![("kind", kind)]).inc();
    }

    /// Returns all metrics, and the numbers of running calls, in the text format of OpenMetrics 1.0.
    #[must_use]
    pub fn to_text(&self, running: &RunningCalls) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _written = encode(&mut text, &self.registry);
        let end = text.strip_suffix("# EOF\n").map(str::len);
        text.truncate(end.unwrap_or(text.len()));
        let (running, waiting) = running.counts();
        let (sent, dropped) = self.counts.totals();
        let mut more = Registry::with_prefix("fumehood");
        more.register("calls_running", "Calls that have a place now", gauge_of(running));
        more.register("calls_waiting", "Calls that wait for a place now", gauge_of(waiting));
        let counter = ConstCounter::<u64>::new;
        more.register("telemetry_spans_sent", "Spans that a collector has taken", counter(sent));
        more.register("telemetry_spans_dropped", "Spans that were dropped", counter(dropped));
        let dependencies = self.dependencies.read().unwrap_or_else(PoisonError::into_inner);
        register_measurements(&mut more, dependencies.iter().flat_map(|dependency| dependency.measurements()));
        let _written = encode(&mut text, &more);
        text
    }
}

impl CallSink for Metrics {
    fn record(&self, call: &EndedCall<'_>) {
        self.record_call(call);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use fumehood_core::boxed::BoxFuture;
    use fumehood_core::call::CallContext;
    use fumehood_core::call::result::Metadata;
    use fumehood_core::dependency::Metric;
    use fumehood_core::schema::gate::{Gate, GateLimits};
    use fumehood_core::tool::definition::{DefinitionLimits, RawDefinition};
    use fumehood_core::tool::name::Namespace;
    use fumehood_core::tool::{Changes, ProviderKind, Revision, Stop, Tool, ValidatedCall};
    use fumehood_core::trace_context::TraceContext;
    use serde_json::json;

    use super::*;
    use crate::tool_metrics::MAX_TOOLS;

    fn record(metrics: &Metrics, tool: Option<&str>, actor: Option<&str>, tenant: Option<&str>) {
        let metadata = Metadata::default().fuel_used(5_000).duration(Duration::from_millis(3));
        let result = CallResult { id: String::new(), tool: String::new(), outcome: Ok(Vec::new()), metadata };
        let tenant = tenant.map(Arc::from);
        let elapsed = Duration::ZERO;
        metrics.record(&EndedCall { execution: "1", tool, actor, tenant: tenant.as_ref(), elapsed, result: &result });
    }

    fn text(metrics: &Metrics) -> String {
        metrics.to_text(&RunningCalls::new())
    }

    #[test]
    fn calls_are_counted_by_tool_outcome_and_client() {
        let metrics = Metrics::default();
        record(&metrics, Some("a__b"), Some("ann"), Some("ci"));
        record(&metrics, Some("a__b"), Some("ann"), Some("ci"));
        record(&metrics, Some("a__b"), None, None);
        metrics.record_host_call("key-value.get", Duration::from_millis(1), &Exemplar::default());
        metrics.record_repair("dropped_null".to_owned());
        let text = text(&metrics);
        for line in [
            r#"fumehood_calls_total{tool="a__b",outcome="ok",actor="ann",tenant="ci"} 2"#,
            r#"fumehood_calls_total{tool="a__b",outcome="ok",actor="",tenant=""} 1"#,
            r#"fumehood_call_duration_seconds_bucket{le="0.005",tool="a__b"} 3"#,
            r#"fumehood_call_fuel_sum{tool="a__b"} 15000.0"#,
            r#"fumehood_host_call_duration_seconds_count{function="key-value.get"} 1"#,
            r#"fumehood_argument_repairs_total{kind="dropped_null"} 1"#,
            "fumehood_calls_running 0",
            "fumehood_telemetry_spans_dropped_total 0",
        ] {
            assert!(text.contains(line), "{line}:\n{text}");
        }
        assert_eq!(text.matches("# EOF").count(), 1);
    }

    struct Pool;

    static FREE: Metric = Metric::gauge("pool_free", "Free connections");
    static WAIT_SECONDS: Metric = Metric::counter("pool_wait_seconds", "Time that calls waited");

    impl Dependency for Pool {
        fn outage(&self) -> Option<&'static str> {
            None
        }

        fn metrics(&self) -> Vec<&'static Metric> {
            vec![&FREE, &WAIT_SECONDS]
        }

        fn measurements(&self) -> Vec<Measurement> {
            let free = |server: &str| FREE.value(2.0).label("server", server);
            vec![free("a"), free("b"), WAIT_SECONDS.value(1.5)]
        }
    }

    #[test]
    fn a_dependency_has_metrics() {
        let metrics = Metrics::default();
        metrics.follow_dependency(Arc::new(Pool));
        // A counter is as it is now, however often it is read.
        for text in [text(&metrics), text(&metrics)] {
            for line in [
                "# TYPE fumehood_pool_free gauge",
                r#"fumehood_pool_free{server="a"} 2.0"#,
                r#"fumehood_pool_free{server="b"} 2.0"#,
                "fumehood_pool_wait_seconds_total 1.5",
            ] {
                assert!(text.contains(line), "{line}:\n{text}");
            }
        }
    }

    #[test]
    fn a_sampled_trace_is_an_exemplar_of_requests() {
        let metrics = Metrics::default();
        metrics.record_host_call("key-value.get", Duration::from_millis(1), &exemplar_of("00"));
        assert!(!text(&metrics).contains("trace_id"));
        metrics.record_http_request(Duration::from_millis(1), &exemplar_of("01"));
        metrics.record_model_request("openai", Duration::from_millis(1), &exemplar_of("01"));
        metrics.record_host_call("key-value.set", Duration::from_millis(1), &exemplar_of("01"));
        assert_eq!(text(&metrics).matches("{trace_id=\"0af7651916cd43dd8448eb211c80319c\"}").count(), 3);
    }

    fn exemplar_of(flags: &str) -> Exemplar {
        let text = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
        Exemplar::new(TraceContext::parse(&text, None).as_ref())
    }

    #[test]
    fn many_tools_share_one_series() {
        let metrics = Metrics::default();
        (0..MAX_TOOLS * 2).for_each(|number| record(&metrics, Some(&format!("t__{number}")), None, None));
        let text = text(&metrics);
        let series = text.lines().filter(|line| line.starts_with("fumehood_call_duration_seconds_count{")).count();
        assert_eq!(series, MAX_TOOLS + 1);
        assert!(text.contains(r#"fumehood_calls_total{tool="other",outcome="ok",actor="",tenant=""} 200"#), "{text}");
    }

    #[test]
    fn clients_beyond_the_limit_share_series() {
        let metrics = Metrics::default();
        for number in 0..8_000 {
            let tool = format!("t__{}", number % 150);
            let tenant = format!("client-{}", number / 150);
            record(&metrics, Some(&tool), Some(&tenant), Some(&tenant));
        }
        let text = text(&metrics);
        let series: Vec<&str> = text.lines().filter(|line| line.starts_with("fumehood_calls_total{")).collect();
        assert_eq!(series.len(), 5_001);
        let count = |line: &&str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        assert_eq!(series.iter().map(count).sum::<u64>(), 8_000);
    }

    /// Tools whose set is replaced.
    #[derive(Default)]
    struct ReplacedTools {
        names: Mutex<BTreeSet<String>>,
        revision: Revision,
    }

    impl ToolProvider for ReplacedTools {
        fn kind(&self) -> ProviderKind {
            ProviderKind::BuiltIn
        }

        fn tools(&self) -> Vec<Arc<Tool>> {
            Vec::new()
        }

        fn find(&self, name: &str) -> Option<Arc<Tool>> {
            let (namespace, tool) = name.split_once("__")?;
            self.names.lock().unwrap().contains(name).then(|| {
                let raw =
                    RawDefinition { name: tool.to_owned(), input_schema: "{}".to_owned(), ..RawDefinition::default() };
                let definition = raw.parse(&DefinitionLimits::default()).unwrap();
                let gate = Gate::for_arguments(&json!({ "type": "object" }), GateLimits::default()).unwrap();
                Arc::new(Tool::new(definition, gate).in_namespace(&Namespace::parse(namespace).unwrap()))
            })
        }

        fn call(&self, _: ValidatedCall, _: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
            Box::pin(std::future::ready(Err(Stop::new("none is called"))))
        }

        fn changes(&self) -> Changes {
            self.revision.subscribe()
        }
    }

    #[test]
    fn tools_that_are_gone_make_room() {
        let metrics = Metrics::default();
        let tools = Arc::new(ReplacedTools::default());
        metrics.follow_tools(&(Arc::clone(&tools) as Arc<dyn ToolProvider>));
        let names = |generation: &str| (0..MAX_TOOLS).map(|number| format!("{generation}__t{number}")).collect();
        let old: BTreeSet<String> = names("old");
        tools.names.lock().unwrap().clone_from(&old);
        old.iter().for_each(|name| record(&metrics, Some(name), None, None));
        record(&metrics, Some("new__t0"), None, None);
        assert!(text(&metrics).contains(r#"tool="other",outcome="ok""#), "all of them are loaded");
        *tools.names.lock().unwrap() = names("new");
        record(&metrics, Some("new__t0"), None, None);
        assert!(!text(&metrics).contains("new__t0"), "nothing says that the set has changed");
        tools.revision.advance();
        record(&metrics, Some("new__t0"), None, None);
        let text = text(&metrics);
        assert!(text.contains(r#"fumehood_calls_total{tool="new__t0",outcome="ok",actor="",tenant=""} 1"#), "{text}");
        assert!(!text.contains("old__"), "{text}");
    }
}
