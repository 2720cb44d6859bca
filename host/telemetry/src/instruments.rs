//! The metrics of calls as instruments of OpenTelemetry.

use std::sync::{Arc, Weak};
use std::time::Duration;

use fumehood_core::call::result::Metadata;
use fumehood_core::dependency::{Dependency, Metric, MetricKind};
use fumehood_core::telemetry::{
    CALL_DURATION_METRIC, CALL_QUEUE_METRIC, CHAT, ERROR_TYPE, FUEL_METRIC, HOST_CALL_FIELD, HOST_CALL_METRIC,
    HTTP_REQUEST_METRIC, MODEL_REQUEST_METRIC, OPERATION_NAME, PEAK_MEMORY_METRIC, PROVIDER_NAME, TOOL_NAME,
};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Histogram, Meter};

use crate::histograms::{BYTES, FUEL, SECONDS};
use crate::labels::OK;

/// Creates a histogram of seconds. The bounds of the SDK are made for milliseconds.
fn seconds(meter: &Meter, name: &'static str) -> Histogram<f64> {
    meter.f64_histogram(name).with_unit("s").with_boundaries(SECONDS.bounds()).build()
}

/// The instruments of calls, and of what they wait for.
pub(crate) struct Instruments {
    meter: Meter,
    duration: Histogram<f64>,
    queue: Histogram<f64>,
    fuel: Histogram<u64>,
    memory: Histogram<u64>,
    host_calls: Histogram<f64>,
    http_requests: Histogram<f64>,
    model_requests: Histogram<f64>,
}

impl Instruments {
    pub(crate) fn new(meter: &Meter) -> Self {
        let memory = meter.u64_histogram(PEAK_MEMORY_METRIC).with_unit("By").with_boundaries(BYTES.bounds());
        Self {
            meter: meter.clone(),
            duration: seconds(meter, CALL_DURATION_METRIC),
            queue: seconds(meter, CALL_QUEUE_METRIC),
            fuel: meter.u64_histogram(FUEL_METRIC).with_boundaries(FUEL.bounds()).build(),
            memory: memory.build(),
            host_calls: seconds(meter, HOST_CALL_METRIC),
            http_requests: seconds(meter, HTTP_REQUEST_METRIC),
            model_requests: seconds(meter, MODEL_REQUEST_METRIC),
        }
    }

    /// Reports the metrics of a dependency, for as long as somebody else holds it.
    pub(crate) fn observe(&self, dependency: &Arc<dyn Dependency>) {
        for metric in dependency.metrics() {
            let name = format!("fumehood.{}", metric.name);
            let weak = Arc::downgrade(dependency);
            let callback = move |observer: &dyn AsyncInstrument<f64>| report(&weak, metric, observer);
            // The meter keeps what it has built.
            match metric.kind {
                MetricKind::Gauge => {
                    let gauge = self.meter.f64_observable_gauge(name).with_description(metric.help);
                    let _gauge = gauge.with_callback(callback).build();
                }
                MetricKind::Counter => {
                    let counter = self.meter.f64_observable_counter(name).with_description(metric.help);
                    let _counter = counter.with_callback(callback).build();
                }
            }
        }
    }

    /// Records a call. The name of the tool and the outcome are from bounded sets.
    pub(crate) fn record_call(&self, tool: &str, outcome: &'static str, metadata: &Metadata) {
        let mut attributes = vec![KeyValue::new(TOOL_NAME, tool.to_owned())];
        if outcome != OK {
            attributes.push(KeyValue::new(ERROR_TYPE, outcome));
        }
        self.duration.record(metadata.duration.as_secs_f64(), &attributes);
        self.queue.record(metadata.queued.as_secs_f64(), &attributes);
        self.fuel.record(metadata.fuel_used, &attributes);
        self.memory.record(u64::try_from(metadata.peak_memory).unwrap_or(u64::MAX), &attributes);
    }

    /// Records a host function, by its name from a closed set.
    pub(crate) fn record_host_call(&self, function: &str, duration: Duration) {
        self.host_calls.record(duration.as_secs_f64(), &[KeyValue::new(HOST_CALL_FIELD, function.to_owned())]);
    }

    /// Records an HTTP request of a tool. Its host is left out: tools may name any number of them.
    pub(crate) fn record_http_request(&self, duration: Duration) {
        self.http_requests.record(duration.as_secs_f64(), &[]);
    }

    /// Records a request to a model, by the kind of its provider.
    pub(crate) fn record_model_request(&self, provider: &str, duration: Duration) {
        let attributes = [KeyValue::new(OPERATION_NAME, CHAT), KeyValue::new(PROVIDER_NAME, provider.to_owned())];
        self.model_requests.record(duration.as_secs_f64(), &attributes);
    }
}

/// Reports what a dependency measures of one metric.
fn report(dependency: &Weak<dyn Dependency>, metric: &'static Metric, observer: &dyn AsyncInstrument<f64>) {
    let Some(dependency) = dependency.upgrade() else { return };
    for measurement in dependency.measurements().into_iter().filter(|it| it.metric == metric) {
        let labels = measurement.labels.into_iter();
        let attributes: Vec<KeyValue> = labels.map(|(name, value)| KeyValue::new(name, value)).collect();
        observer.observe(measurement.value, &attributes);
    }
}
