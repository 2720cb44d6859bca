//! The `[telemetry]` section: traces and metrics.

use std::collections::{BTreeMap, BTreeSet};

use fumehood::settings::ValueSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Traces and metrics. The standard `OTEL_*` variables override these keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TelemetrySection {
    /// The OpenTelemetry collector (OTLP over HTTP), such as "http://127.0.0.1:4318". Default: none, and nothing is
    /// sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
    /// Headers of requests to the collector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    /// Headers with secret values, and their sources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) secret_headers: BTreeMap<String, ValueSource>,
    /// The fraction of traces started here that are sent, from 0 to 1. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sampling: Option<f64>,
    /// Do not pass the trace context to MCP servers.
    #[serde(default)]
    pub(crate) no_propagation: bool,
    /// Also send arguments and results of calls, as far as `persist` of their tools records them.
    #[serde(default)]
    pub(crate) content: bool,
    /// Turn off /metrics and /v1/live of `serve`.
    #[serde(default)]
    pub(crate) no_metrics: bool,
    /// Actors that may read the metrics and the calls of all clients. Default: the client with the only token; none if
    /// there are several.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) metrics_readers: BTreeSet<String>,
}

impl TelemetrySection {
    /// Returns what is wrong with single keys, each with its name.
    pub(crate) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if let Some(endpoint) = &self.endpoint
            && let Err(error) = fumehood::telemetry::parse_endpoint("endpoint", endpoint)
        {
            faults.push(("endpoint", error.to_string()));
        }
        if let Some(sampling) = self.sampling.filter(|share| !(0.0..=1.0).contains(share)) {
            faults.push(("sampling", format!("invalid fraction {sampling}; expected a number from 0 to 1")));
        }
        faults
    }
}
