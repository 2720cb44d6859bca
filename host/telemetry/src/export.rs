//! The way of spans to a collector: a bounded queue, a count of what is dropped, and an HTTP client without redirects.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fumehood_transport::{Request, ResponseLimits, Roots, Transport, TransportError, Url};
use opentelemetry::Context;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor};
use tokio::runtime::Handle;

/// Maximum size of a collector's answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Receives the one warning about a collector that cannot be reached.
pub(crate) type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// Counts of what was sent and dropped.
#[derive(Debug, Default)]
pub(crate) struct ExportCounts {
    /// Spans that are queued or being sent.
    pending: AtomicUsize,
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl ExportCounts {
    /// Returns the numbers of spans that were sent and dropped.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }
}

/// A batch processor with a bounded queue that counts what does not fit.
pub(crate) struct CountingProcessor {
    inner: BatchSpanProcessor,
    counts: Arc<ExportCounts>,
    max_pending: usize,
}

impl CountingProcessor {
    /// Creates a processor. `max_pending` is at most the size of the queue of `inner`, so that that one never drops.
    pub(crate) fn new(inner: BatchSpanProcessor, counts: Arc<ExportCounts>, max_pending: usize) -> Self {
        Self { inner, counts, max_pending }
    }
}

impl fmt::Debug for CountingProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountingProcessor").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl SpanProcessor for CountingProcessor {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        let add = |pending: usize| (pending < self.max_pending).then_some(pending + 1);
        match self.counts.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => self.inner.on_end(span),
            Err(_full) => drop(self.counts.dropped.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// An exporter that counts, and warns once if the collector does not take spans.
pub(crate) struct CountingExporter<E> {
    pub(crate) inner: E,
    pub(crate) counts: Arc<ExportCounts>,
    pub(crate) warning: Arc<Warning>,
}

impl<E> fmt::Debug for CountingExporter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountingExporter").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl<E: SpanExporter> SpanExporter for CountingExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let exported = self.inner.export(batch).await;
        self.counts.pending.fetch_sub(count, Ordering::Relaxed);
        let counter = if exported.is_ok() { &self.counts.sent } else { &self.counts.dropped };
        counter.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
        if exported.is_err() {
            self.warning.emit();
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// A warning that is emitted once in a process.
pub(crate) struct Warning {
    endpoint: String,
    warn: Warn,
    is_emitted: AtomicBool,
}

impl Warning {
    pub(crate) fn new(endpoint: &str, warn: Warn) -> Self {
        Self { endpoint: endpoint.to_owned(), warn, is_emitted: AtomicBool::new(false) }
    }

    pub(crate) fn emit(&self) {
        if !self.is_emitted.swap(true, Ordering::Relaxed) {
            let endpoint = &self.endpoint;
            (self.warn)(&format!(
                "the collector at {endpoint} does not accept telemetry, so spans and metrics are dropped; start it, \
                 or change [telemetry] `endpoint` or OTEL_EXPORTER_OTLP_ENDPOINT"
            ));
        }
    }
}

/// An HTTP client that sends from a runtime of its own: the SDK exports from plain threads.
pub(crate) struct CollectorClient {
    http: Transport,
    runtime: Handle,
    timeout: Duration,
    /// Notified of failures of metrics, which pass no exporter of ours.
    warning: Arc<Warning>,
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorClient").finish_non_exhaustive()
    }
}

impl CollectorClient {
    /// Creates a client.
    ///
    /// # Errors
    /// If the root certificates cannot be read.
    pub(crate) fn new(
        encrypted: bool,
        runtime: Handle,
        timeout: Duration,
        warning: Arc<Warning>,
    ) -> Result<Self, TransportError> {
        let http = Transport::builder().roots(Roots::if_encrypted(encrypted)).max_idle_connections(1).build()?;
        Ok(Self { http, runtime, timeout, warning })
    }
}

impl HttpClient for CollectorClient {
    fn send_bytes<'life0, 'async_trait>(
        &'life0 self,
        request: http::Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<http::Response<Bytes>, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        let client = self.http.clone();
        let limits = ResponseLimits::within(self.timeout, MAX_ANSWER_BYTES);
        let sending = self.runtime.spawn(send(client, request, limits));
        Box::pin(async move {
            let answer = sending.await.unwrap_or_else(|_| Err("telemetry has ended".into()));
            if answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
                return answer;
            }
            self.warning.emit();
            answer
        })
    }
}

async fn send(
    client: Transport,
    request: http::Request<Bytes>,
    limits: ResponseLimits,
) -> Result<http::Response<Bytes>, HttpError> {
    let (head, body) = request.into_parts();
    let mut forwarded = Request::new(head.method, Url::parse(&head.uri.to_string())?).body(body);
    forwarded.headers = head.headers;
    let mut answer = client.send(forwarded, limits).await?;
    let mut response = http::Response::builder().status(answer.status());
    if let Some(headers) = response.headers_mut() {
        *headers = answer.take_headers();
    }
    Ok(response.body(Bytes::from(answer.bytes().await?))?)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use opentelemetry::trace::{Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::trace::{BatchConfigBuilder, SdkTracerProvider};

    use super::*;

    /// An exporter that takes a batch once it is told to.
    #[derive(Debug)]
    struct StuckExporter(std::sync::Mutex<mpsc::Receiver<()>>);

    impl SpanExporter for StuckExporter {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            let _released = self.0.lock().unwrap().recv();
            Ok(())
        }
    }

    #[test]
    fn a_stuck_collector_costs_a_bounded_queue_and_is_counted() {
        let (release, stuck) = mpsc::channel();
        let counts = Arc::new(ExportCounts::default());
        let warning = Arc::new(Warning::new("http://collector.test", Arc::new(|_: &str| {})));
        let exporter = CountingExporter { inner: StuckExporter(stuck.into()), counts: Arc::clone(&counts), warning };
        let config = BatchConfigBuilder::default().with_max_queue_size(32).with_max_export_batch_size(4);
        let inner = BatchSpanProcessor::builder(exporter).with_batch_config(config.build()).build();
        let processor = CountingProcessor::new(inner, Arc::clone(&counts), 16);
        let provider = SdkTracerProvider::builder().with_span_processor(processor).build();
        let tracer = provider.tracer("test");
        // It returns, although nothing is taken.
        (0..100).for_each(|_| drop(tracer.start("span")));
        assert_eq!(counts.totals(), (0, 84));
        drop(release);
        provider.force_flush().unwrap();
        assert_eq!(counts.totals(), (16, 84));
    }

    #[test]
    fn it_warns_once() {
        let warned = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&warned);
        let warn = move |text: &str| {
            assert!(text.contains("http://collector.test"), "{text}");
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let warning = Warning::new("http://collector.test", Arc::new(warn));
        (0..3).for_each(|_| warning.emit());
        assert_eq!(warned.load(Ordering::Relaxed), 1);
    }
}
