//! The metrics of calls as instruments of OpenTelemetry.

use fumehood_core::call::result::Metadata;
use fumehood_core::telemetry::{
    CALL_DURATION_METRIC, CALL_QUEUE_METRIC, ERROR_TYPE, FUEL_METRIC, PEAK_MEMORY_METRIC, TOOL_NAME,
};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};

use crate::labels::OK;

/// The instruments of calls.
pub(crate) struct Instruments {
    duration: Histogram<f64>,
    queue: Histogram<f64>,
    fuel: Histogram<u64>,
    memory: Histogram<u64>,
}

impl Instruments {
    pub(crate) fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str| meter.f64_histogram(name).with_unit("s").build();
        Self {
            duration: seconds(CALL_DURATION_METRIC),
            queue: seconds(CALL_QUEUE_METRIC),
            fuel: meter.u64_histogram(FUEL_METRIC).build(),
            memory: meter.u64_histogram(PEAK_MEMORY_METRIC).with_unit("By").build(),
        }
    }

    /// Records a call. The name of the tool and the outcome are from bounded sets.
    pub(crate) fn record(&self, tool: &str, outcome: &'static str, metadata: &Metadata) {
        let mut attributes = vec![KeyValue::new(TOOL_NAME, tool.to_owned())];
        if outcome != OK {
            attributes.push(KeyValue::new(ERROR_TYPE, outcome));
        }
        self.duration.record(metadata.duration.as_secs_f64(), &attributes);
        self.queue.record(metadata.queued.as_secs_f64(), &attributes);
        self.fuel.record(metadata.fuel_used, &attributes);
        self.memory.record(u64::try_from(metadata.peak_memory).unwrap_or(u64::MAX), &attributes);
    }
}
