//! Traces and metrics of the host: spans and metrics for OpenTelemetry over OTLP, and metrics for Prometheus.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! - [`Telemetry::start`] sends spans to a collector. [`Telemetry::layer`] collects them from the crates that emit them, next to the
//!   other layers of your `tracing` subscriber. [`Telemetry::install`] is for programs without one.
//! - [`Metrics`] count and measure the calls of [`RunningCalls`](fumehood_server::RunningCalls) that they are subscribed to.
//! - [`MetricsService`] serves the metrics, and the running calls, behind the listener's admission.
//!
//! Nothing here blocks a call: spans go through a bounded queue, and what does not fit is dropped and counted. Names of spans and
//! attributes are those of [`fumehood_core::telemetry`]. Neither arguments nor results are part of any of it.
//!
//! ```
//! use fumehood_telemetry::{ExportOptions, parse_endpoint};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = parse_endpoint("endpoint", "http://127.0.0.1:4318")?;
//! let options = ExportOptions { endpoint: Some(endpoint), sampling: 0.1, ..ExportOptions::default() };
//! // The standard `OTEL_*` variables replace settings.
//! let options = options.with_environment(|name| std::env::var(name).ok())?;
//! assert!(options.traces_url().is_some());
//! # Ok(())
//! # }
//! ```

mod bridge;
mod export;
mod histograms;
mod instruments;
mod labels;
mod live;
mod live_client;
mod metrics;
mod options;
mod pipeline;
mod sampling;
mod service;
mod span_metrics;
mod tool_metrics;

pub use live::{CallPhase, LiveCall, LiveSnapshot};
pub use live_client::{LiveClient, LiveClientError};
pub use metrics::Metrics;
pub use options::{ContentPolicy, ExportOptions, OptionsError, Signals, parse_endpoint};
pub use pipeline::{Telemetry, TelemetryError};
pub use service::{LIVE_PATH, METRICS_PATH, MetricsService};
