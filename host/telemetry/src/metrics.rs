//! The metrics of calls, and their text for Prometheus.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use fumehood_core::call::result::CallResult;
use fumehood_core::trace_context;
use fumehood_listener::{CallSink, EndedCall, RunningCalls};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::export::ExportCounts;
use crate::instruments::Instruments;
use crate::labels::{LabelValues, OK, OTHER};
use crate::live::RecentOutcomes;

/// Maximum number of tools with metrics of their own.
const MAX_TOOLS: usize = 200;
/// Maximum number of actors with counters of their own.
const MAX_ACTORS: usize = 50;
/// Maximum number of counters of calls: combinations of tool, outcome and actor.
const MAX_CALL_SERIES: usize = 5_000;

type Labels = Vec<(&'static str, String)>;
type Histogram = HistogramWithExemplars<Labels>;
type Histograms = Family<Labels, Histogram, Buckets>;

/// Bounds of the buckets of a histogram.
#[derive(Clone)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Seconds from 10 µs to a minute.
const SECONDS: Buckets =
    Buckets(&[0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0]);
/// Fuel from a thousand instructions to ten billions.
const FUEL: Buckets = Buckets(&[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10]);
/// Bytes from 64 KiB, the page of a memory, to 1 GiB.
const BYTES: Buckets = Buckets(&[
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
]);
/// Numbers of requests of one call.
const COUNTS: Buckets = Buckets(&[0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 64.0]);

/// The histograms of one tool.
struct ToolMetrics {
    label: Arc<str>,
    duration: Histogram,
    queue: Histogram,
    fuel: Histogram,
    memory: Histogram,
    requests: Histogram,
}

/// Metrics of calls that have ended, for [`RunningCalls::subscribe`]: by tool, outcome and actor, with a bounded number of series whatever tools and clients say.
pub struct Metrics {
    registry: Registry,
    calls: Family<Labels, Counter>,
    families: ToolFamilies,
    host_calls: Histograms,
    http_requests: Histograms,
    model_requests: Histograms,
    tools: RwLock<HashMap<Arc<str>, Arc<ToolMetrics>>>,
    actors: LabelValues,
    /// Combinations of tool, outcome and actor.
    series: LabelValues,
    recent: RecentOutcomes,
    counts: Arc<ExportCounts>,
    instruments: Option<Instruments>,
}

struct ToolFamilies {
    duration: Histograms,
    queue: Histograms,
    fuel: Histograms,
    memory: Histograms,
    requests: Histograms,
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

impl Metrics {
    pub(crate) fn new(counts: Arc<ExportCounts>, instruments: Option<Instruments>) -> Self {
        let mut registry = Registry::with_prefix("fumehood");
        let calls = Family::default();
        registry.register("calls", "Calls of tools by outcome: `ok` or the kind of the failure", calls.clone());
        let mut add = |name: &str, help: &str, unit: Option<Unit>, buckets: Buckets| {
            let family = Histograms::new_with_constructor(buckets);
            match unit {
                Some(unit) => registry.register_with_unit(name, help, unit, family.clone()),
                None => registry.register(name, help, family.clone()),
            }
            family
        };
        let families = ToolFamilies {
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
            calls,
            families,
            host_calls,
            http_requests,
            model_requests,
            tools: RwLock::default(),
            actors: LabelValues::new(MAX_ACTORS),
            series: LabelValues::new(MAX_CALL_SERIES),
            recent: RecentOutcomes::default(),
            counts,
            instruments,
        }
    }

    /// Returns the numbers of calls that ended in the last minute, by outcome.
    pub(crate) fn recent_outcomes(&self) -> BTreeMap<String, u64> {
        self.recent.totals()
    }

    /// Records the end of a call. `tool` is the name of a tool that is loaded; `None` for a name that is not.
    fn record_call(&self, tool: Option<&str>, actor: Option<&str>, result: &CallResult) {
        let tool = self.tool(tool);
        let outcome = result.error().map_or(OK, |error| error.kind.as_str());
        self.count(&tool.label, outcome, actor);
        self.recent.add(outcome);
        if let Some(instruments) = &self.instruments {
            instruments.record(&tool.label, outcome, &result.metadata);
        }
        let metadata = &result.metadata;
        let exemplar = trace_context::current().filter(trace_context::TraceContext::is_sampled);
        let exemplar = exemplar.map(|trace| vec![("trace_id", trace.trace_id().to_owned())]);
        let at = exemplar.as_ref().map(|_| SystemTime::now());
        let observe = |histogram: &Histogram, value: f64| histogram.observe(value, exemplar.clone(), at);
        observe(&tool.duration, metadata.duration.as_secs_f64());
        observe(&tool.queue, metadata.queued.as_secs_f64());
        #[allow(clippy::cast_precision_loss, reason = "histograms need no more than 52 bits")]
        {
            observe(&tool.fuel, metadata.fuel_used as f64);
            observe(&tool.memory, metadata.peak_memory as f64);
            observe(&tool.requests, metadata.requests.len() as f64);
        }
    }

    fn count(&self, tool: &str, outcome: &'static str, actor: Option<&str>) {
        let labels = |tool: &str, actor: &str| -> Labels {
            vec![("tool", tool.to_owned()), ("outcome", outcome.to_owned()), ("actor", actor.to_owned())]
        };
        let actor = actor.map(|actor| self.actors.admit(actor));
        let actor = actor.as_deref().unwrap_or_default();
        let has_room = self.series.admit(&format!("{tool} {outcome} {actor}")).as_ref() != OTHER;
        self.calls.get_or_create(&if has_room { labels(tool, actor) } else { labels(OTHER, OTHER) }).inc();
    }

    /// Records the duration of a host function, by its name from a closed set.
    pub(crate) fn record_host_call(&self, function: &str, duration: Duration) {
        let labels = vec![("function", function.to_owned())];
        self.host_calls.get_or_create(&labels).observe(duration.as_secs_f64(), None, None);
    }

    /// Records the duration of an HTTP request of a tool.
    pub(crate) fn record_http_request(&self, duration: Duration) {
        self.http_requests.get_or_create(&Vec::new()).observe(duration.as_secs_f64(), None, None);
    }

    /// Records the duration of a request to a model, by the kind of its provider.
    pub(crate) fn record_model_request(&self, provider: &str, duration: Duration) {
        let labels = vec![("provider", provider.to_owned())];
        self.model_requests.get_or_create(&labels).observe(duration.as_secs_f64(), None, None);
    }

    fn tool(&self, name: Option<&str>) -> Arc<ToolMetrics> {
        let name = name.unwrap_or(OTHER);
        // No code that holds the lock can panic half-way.
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = tools.get(name) {
            return Arc::clone(found);
        }
        drop(tools);
        let mut tools = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        let name: Arc<str> = if tools.len() < MAX_TOOLS { Arc::from(name) } else { Arc::from(OTHER) };
        let create = || Arc::new(self.families.create(&name));
        Arc::clone(tools.entry(Arc::clone(&name)).or_insert_with(create))
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
        let gauge = |count: usize| ConstGauge::<i64>::new(i64::try_from(count).unwrap_or(i64::MAX));
        more.register("calls_running", "Calls that have a place now", gauge(running));
        more.register("calls_waiting", "Calls that wait for a place now", gauge(waiting));
        let counter = prometheus_client::metrics::counter::ConstCounter::<u64>::new;
        more.register("telemetry_spans_sent", "Spans that a collector has taken", counter(sent));
        more.register("telemetry_spans_dropped", "Spans that were dropped", counter(dropped));
        let _written = encode(&mut text, &more);
        text
    }
}

impl CallSink for Metrics {
    fn record(&self, call: &EndedCall<'_>) {
        self.record_call(call.tool, call.actor, call.result);
    }
}

impl ToolFamilies {
    fn create(&self, tool: &Arc<str>) -> ToolMetrics {
        let labels = vec![("tool", tool.to_string())];
        let create = |family: &Histograms| family.get_or_create_owned(&labels);
        ToolMetrics {
            label: Arc::clone(tool),
            duration: create(&self.duration),
            queue: create(&self.queue),
            fuel: create(&self.fuel),
            memory: create(&self.memory),
            requests: create(&self.requests),
        }
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::call::result::Metadata;

    use super::*;

    fn result() -> CallResult {
        let metadata = Metadata { fuel_used: 5_000, duration: Duration::from_millis(3), ..Metadata::default() };
        CallResult { id: String::new(), tool: String::new(), outcome: Ok(Vec::new()), metadata }
    }

    #[test]
    fn calls_are_counted_by_tool_outcome_and_actor() {
        let metrics = Metrics::default();
        metrics.record_call(Some("a__b"), Some("ann"), &result());
        metrics.record_call(Some("a__b"), None, &result());
        metrics.record_host_call("key-value.get", Duration::from_millis(1));
        let text = metrics.to_text(&RunningCalls::new());
        for line in [
            r#"fumehood_calls_total{tool="a__b",outcome="ok",actor="ann"} 1"#,
            r#"fumehood_call_duration_seconds_bucket{le="0.005",tool="a__b"} 2"#,
            r#"fumehood_call_fuel_sum{tool="a__b"} 10000.0"#,
            r#"fumehood_host_call_duration_seconds_count{function="key-value.get"} 1"#,
            "fumehood_calls_running 0",
            "fumehood_telemetry_spans_dropped_total 0",
        ] {
            assert!(text.contains(line), "{line}:\n{text}");
        }
        assert_eq!(text.matches("# EOF").count(), 1);
    }

    #[test]
    fn many_tools_share_one_series() {
        let metrics = Metrics::default();
        (0..MAX_TOOLS * 2).for_each(|number| metrics.record_call(Some(&format!("t__{number}")), None, &result()));
        let text = metrics.to_text(&RunningCalls::new());
        let series = text.lines().filter(|line| line.starts_with("fumehood_call_duration_seconds_count{")).count();
        assert!(series <= MAX_TOOLS + 1, "{series}");
        assert!(text.contains(r#"tool="other""#));
    }
}
