//! Histograms with exemplars, and the bounds of their buckets.

use std::time::SystemTime;

use fumehood_core::trace_context::TraceContext;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::{Family, MetricConstructor};

pub(crate) type Labels = Vec<(&'static str, String)>;
pub(crate) type Histogram = HistogramWithExemplars<Labels>;
pub(crate) type Histograms = Family<Labels, Histogram, Buckets>;

/// Bounds of the buckets of a histogram.
#[derive(Clone)]
pub(crate) struct Buckets(&'static [f64]);

impl Buckets {
    /// Returns the upper bounds in ascending order, without the one of the last bucket, which has none.
    pub(crate) fn bounds(&self) -> Vec<f64> {
        self.0.to_vec()
    }
}

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Seconds from 10 µs, a call in this process, to five minutes, a model that thinks.
pub(crate) const SECONDS: Buckets = Buckets(&[
    0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0,
]);
/// Fuel from a thousand instructions to ten billions.
pub(crate) const FUEL: Buckets = Buckets(&[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10]);
/// Bytes from 64 KiB, the page of a memory, to 1 GiB.
pub(crate) const BYTES: Buckets = Buckets(&[
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
pub(crate) const COUNTS: Buckets = Buckets(&[0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 64.0]);

/// The trace that a value belongs to, and the time of the value; nothing of a trace that is not collected.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exemplar(Option<(Labels, SystemTime)>);

impl Exemplar {
    /// Creates the exemplar of values that are observed now, within the span of this context.
    pub(crate) fn new(context: Option<&TraceContext>) -> Self {
        let trace = context.filter(|context| context.is_sampled());
        Self(trace.map(|trace| (vec![("trace_id", trace.trace_id().to_owned())], SystemTime::now())))
    }

    /// Adds a value to a histogram.
    pub(crate) fn observe(&self, histogram: &Histogram, value: f64) {
        let (labels, at) = self.0.clone().unzip();
        histogram.observe(value, labels, at);
    }
}
