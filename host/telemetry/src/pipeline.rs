//! The pipeline from spans and calls to a collector: built once for a process, and flushed at its end.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use fumehood_core::trace_context::{self, BridgeError};
use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider};
use tokio::runtime::{Handle, Runtime};
use tracing::Subscriber;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use url::Url;

use crate::bridge::OpenTelemetryBridge;
use crate::export::{CollectorClient, CountingExporter, CountingProcessor, ExportCounts, Warn, Warning};
use crate::instruments::Instruments;
use crate::metrics::Metrics;
use crate::options::ExportOptions;
use crate::sampling::{CallFilter, FilteredSampler, SamplingRatio};
use crate::span_metrics::{MeasuredSpans, SpanMetrics};

/// Name of the instrumentation in spans and metrics.
const SCOPE: &str = "fumehood";
/// Maximum number of spans in a batch.
const MAX_BATCH_SPANS: usize = 512;

/// An error of setting up telemetry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The process has a subscriber already.
    #[error("this process already has a `tracing` subscriber; add `Telemetry::layer` to that one instead")]
    Installed,
    /// Telemetry was started in this process already.
    #[error("telemetry was started in this process already; start it once")]
    Started,
    /// The threads of the exporter could not be started.
    #[error("cannot start the threads that send telemetry")]
    Threads(#[source] std::io::Error),
    /// The HTTP client could not be created.
    #[error("cannot set up the HTTP client of telemetry")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A setting of the exporter is invalid.
    #[error("cannot set up the telemetry exporter")]
    Exporter(#[source] ExporterBuildError),
}

impl From<BridgeError> for TelemetryError {
    fn from(_: BridgeError) -> Self {
        Self::Started
    }
}

/// The telemetry of this process.
pub struct Telemetry {
    metrics: Arc<Metrics>,
    traces: Option<SdkTracerProvider>,
    meters: Option<SdkMeterProvider>,
    runtime: Option<ExportRuntime>,
    sampling: f64,
}

/// The runtime that requests to a collector are sent from. Dropping it never waits, because that is forbidden within another one.
struct ExportRuntime(Option<Runtime>);

impl ExportRuntime {
    fn start() -> std::io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("telemetry").enable_all().build().map(|runtime| Self(Some(runtime)))
    }
}

impl Drop for ExportRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("traces", &self.traces.is_some()).finish_non_exhaustive()
    }
}

/// The parts of the export, before anything is installed.
struct Parts<'a> {
    options: &'a ExportOptions,
    runtime: &'a Handle,
    warn: Warn,
    counts: Arc<ExportCounts>,
}

impl Telemetry {
    /// Starts telemetry, and makes its [`layer`](Self::layer) the only one of this process.
    ///
    /// For programs without a subscriber of `tracing`. Others use [`start`](Self::start).
    ///
    /// # Errors
    /// Like `start`, or if the process has a subscriber already.
    pub fn install(
        options: &ExportOptions,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, TelemetryError> {
        let telemetry = Self::start(options, warn)?;
        let subscriber = Registry::default().with(telemetry.layer());
        tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::Installed)?;
        Ok(telemetry)
    }

    /// Starts the export to the collector of the options, if there is one. Spans are collected once a subscriber has the
    /// [`layer`](Self::layer).
    ///
    /// A collector that cannot be reached is no error: `warn` receives one message, and what cannot be sent is dropped and counted.
    ///
    /// # Errors
    /// If telemetry was started in this process before, or the exporter cannot be set up.
    pub fn start(options: &ExportOptions, warn: impl Fn(&str) + Send + Sync + 'static) -> Result<Self, TelemetryError> {
        let counts = Arc::new(ExportCounts::default());
        let traces_url = options.traces_url();
        let metrics_url = options.metrics_url();
        let runtime = if traces_url.is_some() || metrics_url.is_some() {
            Some(ExportRuntime::start().map_err(TelemetryError::Threads)?)
        } else {
            None
        };
        let handle = runtime.as_ref().and_then(|runtime| runtime.0.as_ref()).map(Runtime::handle);
        let parts = handle.map(|runtime| {
            let warn: Warn = Arc::new(warn);
            let counts = Arc::clone(&counts);
            Parts { options, runtime, warn, counts }
        });
        let traces = match (&parts, traces_url) {
            (Some(parts), Some(url)) => Some(parts.traces(&url)?),
            _ => None,
        };
        let meters = match (&parts, metrics_url) {
            (Some(parts), Some(url)) => Some(parts.meters(&url)?),
            _ => None,
        };
        let instruments = meters.as_ref().map(|meters| Instruments::new(&meters.meter(SCOPE)));
        let metrics = Arc::new(Metrics::new(counts, instruments));
        if traces.is_some() {
            trace_context::install_bridge(Box::new(OpenTelemetryBridge {
                propagates: options.propagates,
                content: options.content.clone(),
                ratio: SamplingRatio::new(options.sampling),
            }))?;
        }
        Ok(Self { metrics, traces, meters, runtime, sampling: options.sampling })
    }

    /// Returns the layer that collects spans, for the subscriber of this process. It ignores everything but the spans and events
    /// of this host, whatever the filters of other layers are.
    ///
    /// ```
    /// use fumehood_telemetry::{ExportOptions, Telemetry};
    /// use tracing_subscriber::layer::SubscriberExt as _;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let telemetry = Telemetry::start(&ExportOptions::default(), |warning| eprintln!("{warning}"))?;
    /// // Next to the layers of your service, such as `tracing_subscriber::fmt::layer()`.
    /// let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    /// tracing::subscriber::set_global_default(subscriber)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'lookup> LookupSpan<'lookup> + Send + Sync,
    {
        let collected = self.traces.as_ref().map(|traces| {
            let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer(SCOPE));
            let layer = layer.with_location(false).with_threads(false).with_target(false).with_level(false);
            layer
                .with_tracked_inactivity(false)
                .with_context_activation(false)
                .with_filter(CallFilter(SamplingRatio::new(self.sampling)))
        });
        let measured = SpanMetrics(Arc::clone(&self.metrics)).with_filter(MeasuredSpans);
        Layer::and_then(collected, measured)
    }

    /// Returns the metrics.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Sends what is queued, for at most `limit`. What a collector does not take until then is dropped.
    pub fn shutdown(self, limit: Duration) {
        let Self { traces, meters, runtime, .. } = self;
        let (ended, wait) = mpsc::channel();
        // On a thread, because an exporter may wait longer than it is told to.
        let flush = move || {
            if let Some(traces) = traces {
                let _dropped_and_counted = traces.shutdown_with_timeout(limit);
            }
            if let Some(meters) = meters {
                let _dropped = meters.shutdown_with_timeout(limit);
            }
            let _nobody_waits = ended.send(());
        };
        if std::thread::Builder::new().name("telemetry-flush".to_owned()).spawn(flush).is_ok() {
            let _too_late = wait.recv_timeout(limit);
        }
        drop(runtime);
    }
}

impl Parts<'_> {
    fn client(&self, url: &Url, warning: &Arc<Warning>) -> Result<CollectorClient, TelemetryError> {
        let handle = self.runtime.clone();
        let timeout = self.options.timeout;
        CollectorClient::new(url.scheme() == "https", handle, timeout, Arc::clone(warning))
            .map_err(|error| TelemetryError::Client(Box::new(error)))
    }

    fn warning(&self, url: &Url) -> Arc<Warning> {
        let mut shown = url.clone();
        // A password in the URL is not for messages.
        let _has_no_user = (shown.set_username(""), shown.set_password(None));
        Arc::new(Warning::new(shown.as_str(), Arc::clone(&self.warn)))
    }

    fn resource(&self) -> Resource {
        let version = KeyValue::new("service.version", self.options.service_version.clone());
        Resource::builder().with_service_name(self.options.service_name.clone()).with_attribute(version).build()
    }

    fn traces(&self, url: &Url) -> Result<SdkTracerProvider, TelemetryError> {
        let warning = self.warning(url);
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(self.client(url, &warning)?)
            .with_headers(self.options.headers.clone().into_iter().collect())
            .with_endpoint(url.as_str())
            .with_timeout(self.options.timeout)
            .build()
            .map_err(TelemetryError::Exporter)?;
        let exporter = CountingExporter { inner: exporter, counts: Arc::clone(&self.counts), warning };
        let queue = self.options.queue_length.max(1);
        let config = BatchConfigBuilder::default()
            // Twice as long, so that our own count is reached first, and the SDK never drops what we do not count.
            .with_max_queue_size(queue.saturating_mul(2))
            .with_max_export_batch_size(MAX_BATCH_SPANS.min(queue))
            .with_scheduled_delay(self.options.span_interval);
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(config.build()).build();
        let sampler =
            Sampler::ParentBased(Box::new(FilteredSampler(Sampler::TraceIdRatioBased(self.options.sampling))));
        Ok(SdkTracerProvider::builder()
            .with_span_processor(CountingProcessor::new(processor, Arc::clone(&self.counts), queue))
            .with_sampler(sampler)
            .with_resource(self.resource())
            .build())
    }

    fn meters(&self, url: &Url) -> Result<SdkMeterProvider, TelemetryError> {
        let exporter = MetricExporter::builder()
            .with_http()
            .with_http_client(self.client(url, &self.warning(url))?)
            .with_headers(self.options.headers.clone().into_iter().collect())
            .with_endpoint(url.as_str())
            .with_timeout(self.options.timeout)
            .build()
            .map_err(TelemetryError::Exporter)?;
        let reader = PeriodicReader::builder(exporter).with_interval(self.options.metric_interval).build();
        Ok(SdkMeterProvider::builder().with_reader(reader).with_resource(self.resource()).build())
    }
}
