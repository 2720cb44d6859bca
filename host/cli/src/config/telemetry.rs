//! The `[telemetry]` section: traces and metrics.

use std::collections::{BTreeMap, BTreeSet};

use fumehood::settings::ValueSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Traces and metrics. The standard `OTEL_*` variables stand above these keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TelemetrySection {
    /// The collector that spans and metrics are sent to with OTLP over HTTP, such as "http://127.0.0.1:4318". Usually none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
    /// Headers of requests to the collector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    /// Further headers whose values come from elsewhere.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) secret_headers: BTreeMap<String, ValueSource>,
    /// The share of traces that is sent if they begin here, from 0 to 1. Usually 1: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sampling: Option<f64>,
    /// Do not tell MCP servers the trace that a call belongs to.
    #[serde(default)]
    pub(crate) no_propagation: bool,
    /// Send arguments and results of calls to the collector, too, as far as `persist` of their tools records them.
    #[serde(default)]
    pub(crate) content: bool,
    /// Serve no metrics at /metrics and no running calls at /v1/live.
    #[serde(default)]
    pub(crate) no_metrics: bool,
    /// Actors of tokens that may read the metrics and the calls of all. Usually the only token may, and none of several.
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
            faults.push(("sampling", format!("{sampling} is no share; write a number from 0 to 1")));
        }
        faults
    }
}
