//! The `[telemetry]` section: traces and metrics.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::secret::ValueSource;

/// Traces and metrics. The standard `OTEL_*` variables override these keys.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySection {
    /// The OpenTelemetry collector (OTLP over HTTP), such as "http://127.0.0.1:4318". Default: none, and nothing is
    /// sent.
    pub endpoint: Option<String>,
    /// Headers of requests to the collector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Headers with secret values, and their sources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secret_headers: BTreeMap<String, ValueSource>,
    /// The fraction of traces started here that are sent, from 0 to 1. Default: 1.
    pub sampling: Option<f64>,
    /// Do not pass the trace context to MCP servers.
    #[serde(default)]
    pub no_propagation: bool,
    /// Also send arguments and results of calls, as far as `persist` of their tools records them.
    #[serde(default)]
    pub content: bool,
    /// Turn off /metrics and /v1/live of `serve`.
    #[serde(default)]
    pub no_metrics: bool,
    /// Actors that may read the metrics and the calls of all clients. Default: the client with the only token; none if
    /// there are several.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub metrics_readers: BTreeSet<String>,
}
