//! A collector that takes OTLP over HTTP: the messages are decoded with OpenTelemetry's own types.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint, number_data_point};
use prost::Message as _;

/// Maximum time to wait for something, far above what an export takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A span that was exported. Ids are hexadecimal digits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Span {
    /// The name.
    pub name: String,
    /// The id of its trace.
    pub trace: String,
    /// Its own id.
    pub id: String,
    /// The id of its parent; empty if it has none.
    pub parent: String,
    /// The kind, as OTLP numbers it: 1 is internal, 2 a server, 3 a client.
    pub kind: i32,
    /// The status, as OTLP numbers it: 2 is an error.
    pub status: i32,
    /// The attributes, as text.
    pub attributes: BTreeMap<String, String>,
    /// The attributes of its service, as text.
    pub resource: BTreeMap<String, String>,
}

/// A histogram that was exported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// The name of the metric.
    pub name: String,
    /// The unit.
    pub unit: String,
    /// The number of values.
    pub count: u64,
    /// The upper bounds of the buckets, without the last one's.
    pub bounds: Vec<f64>,
    /// The attributes, as text.
    pub attributes: BTreeMap<String, String>,
}

/// A value of a counter or gauge that was exported.
#[derive(Debug, Clone)]
pub struct Number {
    /// The name of the metric.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Whether it only rises.
    pub is_counter: bool,
    /// The attributes, as text.
    pub attributes: BTreeMap<String, String>,
}

/// Everything that was exported so far.
#[derive(Debug, Clone, Default)]
pub struct ExportedTelemetry {
    /// Spans, in the order of their arrival.
    pub spans: Vec<Span>,
    /// Histograms, once for each report.
    pub histograms: Vec<Histogram>,
    /// Values of counters and gauges, once for each report.
    pub numbers: Vec<Number>,
    /// The heads of all requests.
    pub heads: Vec<String>,
    /// The bodies of all requests, as they came.
    pub bodies: Vec<Vec<u8>>,
}

impl ExportedTelemetry {
    /// Returns the names of a span of this name in a trace and of its ancestors, up to the one below the span `root`; `None` unless
    /// every span of the trace is below `root`.
    #[must_use]
    pub fn path(&self, trace: &str, name: &str, root: &str) -> Option<Vec<String>> {
        let spans: Vec<&Span> = self.spans.iter().filter(|span| span.trace == trace).collect();
        let paths = spans.iter().map(|span| path(&spans, span, root)).collect::<Option<Vec<_>>>()?;
        paths.into_iter().find(|path| path.first().is_some_and(|first| first == name))
    }
}

fn path(spans: &[&Span], from: &Span, root: &str) -> Option<Vec<String>> {
    let mut names = vec![from.name.clone()];
    let mut parent = &from.parent;
    while parent != root {
        let above = spans.iter().find(|span| span.id == *parent)?;
        names.push(above.name.clone());
        parent = &above.parent;
    }
    Some(names)
}

/// A running collector. It runs until the test process ends.
#[derive(Debug, Clone)]
pub struct Collector {
    address: SocketAddr,
    state: Arc<(Mutex<ExportedTelemetry>, Condvar)>,
}

impl Collector {
    /// Starts a collector on a loopback port.
    ///
    /// # Errors
    /// If there is no port.
    pub fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let collector = Self { address: listener.local_addr()?, state: Arc::default() };
        let accepting = collector.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = accepting.clone();
                std::thread::spawn(move || while serving.answer(&stream).is_some() {});
            }
        });
        Ok(collector)
    }

    /// Returns its endpoint.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns what was exported so far.
    #[must_use]
    pub fn exported(&self) -> ExportedTelemetry {
        self.lock().clone()
    }

    /// Waits until `find` finds something in what was exported. Returns `None` after a minute.
    pub fn wait<T>(&self, find: impl Fn(&ExportedTelemetry) -> Option<T>) -> Option<T> {
        let started = Instant::now();
        let mut exported = self.lock();
        loop {
            if let Some(found) = find(&exported) {
                return Some(found);
            }
            let left = PATIENCE.checked_sub(started.elapsed())?;
            exported = self.state.1.wait_timeout(exported, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for a span of this name.
    #[must_use]
    pub fn span(&self, name: &str) -> Option<Span> {
        self.wait(|exported| exported.spans.iter().find(|span| span.name == name).cloned())
    }

    fn lock(&self) -> MutexGuard<'_, ExportedTelemetry> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one request of a connection; `None` once the client has left.
    fn answer(&self, mut stream: &TcpStream) -> Option<()> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 8192];
        let (head, body) = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(bytes.get(..end)?).to_lowercase();
                let length =
                    head.lines().find_map(|line| line.strip_prefix("content-length: "))?.trim().parse().ok()?;
                let body = bytes.get(end + 4..)?;
                if body.len() >= length {
                    break (head, body.get(..length)?.to_vec());
                }
            }
            let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
            bytes.extend_from_slice(buffer.get(..read)?);
        };
        let mut exported = self.lock();
        if head.starts_with("post /v1/traces ") {
            exported.spans.extend(spans(&body)?);
        } else if head.starts_with("post /v1/metrics ") {
            exported.add_metrics(&body)?;
        }
        exported.heads.push(head);
        exported.bodies.push(body);
        drop(exported);
        self.state.1.notify_all();
        // An empty message: everything was taken.
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n").ok()
    }
}

impl ExportedTelemetry {
    fn add_metrics(&mut self, body: &[u8]) -> Option<()> {
        let request = ExportMetricsServiceRequest::decode(body).ok()?;
        let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        for Metric { name, unit, data, .. } in scopes.flat_map(|scope| scope.metrics) {
            match data? {
                Data::Histogram(histogram) => {
                    self.histograms.extend(histogram.data_points.into_iter().map(|point| Histogram {
                        name: name.clone(),
                        unit: unit.clone(),
                        count: point.count,
                        bounds: point.explicit_bounds,
                        attributes: attributes(point.attributes),
                    }));
                }
                Data::Gauge(gauge) => self.add_numbers(&name, false, gauge.data_points),
                Data::Sum(sum) => self.add_numbers(&name, sum.is_monotonic, sum.data_points),
                _ => {}
            }
        }
        Some(())
    }

    fn add_numbers(&mut self, name: &str, is_counter: bool, points: Vec<NumberDataPoint>) {
        for point in points {
            let Some(number_data_point::Value::AsDouble(value)) = point.value else { continue };
            let attributes = attributes(point.attributes);
            self.numbers.push(Number { name: name.to_owned(), value, is_counter, attributes });
        }
    }
}

fn spans(body: &[u8]) -> Option<Vec<Span>> {
    let mut found = Vec::new();
    for of_resource in ExportTraceServiceRequest::decode(body).ok()?.resource_spans {
        let resource = attributes(of_resource.resource.map(|resource| resource.attributes).unwrap_or_default());
        for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            found.push(Span {
                name: span.name,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                kind: span.kind,
                status: span.status.map_or(0, |status| status.code),
                attributes: attributes(span.attributes),
                resource: resource.clone(),
            });
        }
    }
    Some(found)
}

fn attributes(all: Vec<KeyValue>) -> BTreeMap<String, String> {
    all.into_iter().map(|pair| (pair.key, to_text(pair.value))).collect()
}

fn to_text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::IntValue(value)) => value.to_string(),
        Some(Value::DoubleValue(value)) => value.to_string(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
