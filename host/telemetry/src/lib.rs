//! Traces and metrics of the host: spans and metrics for OpenTelemetry over OTLP, and metrics for Prometheus.
//!
//! - [`Telemetry::install`] collects the spans of `tracing` that the other crates emit, and sends them to a collector.
//! - [`MeteredTools`] is a layer around a provider of tools that counts and measures calls.
//! - [`MetricsService`] serves the metrics, and the running calls, behind the listener's admission.
//!
//! Nothing here blocks a call: spans go through a bounded queue, and what does not fit is dropped and counted. Names of spans and
//! attributes are those of [`fumehood_core::telemetry`]. Neither arguments nor results are part of any of it.

mod bridge;
mod export;
mod instruments;
mod labels;
mod live;
mod live_client;
mod metered_tools;
mod metrics;
mod options;
mod pipeline;
mod sampling;
mod service;
mod span_metrics;
mod tls;

pub use live::{CallPhase, LiveCall, LiveSnapshot};
pub use live_client::{LiveClient, LiveClientError};
pub use metered_tools::MeteredTools;
pub use metrics::Metrics;
pub use options::{ContentPolicy, ExportOptions, OptionsError, Signals, parse_endpoint};
pub use pipeline::{Telemetry, TelemetryError};
pub use service::{LIVE_PATH, METRICS_PATH, MetricsService};
