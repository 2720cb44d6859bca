//! Settings of the export to a collector, with the standard `OTEL_*` variables over them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::persistence::Persistence;
use percent_encoding::percent_decode_str;
use url::Url;

/// Default maximum time of one request to a collector.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Default maximum number of spans that wait to be sent.
const DEFAULT_QUEUE_LENGTH: usize = 2048;
/// Default time between two batches of spans.
const DEFAULT_SPAN_INTERVAL: Duration = Duration::from_secs(5);
/// Default time between two reports of metrics.
const DEFAULT_METRIC_INTERVAL: Duration = Duration::from_secs(60);

/// The signals that are exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signals {
    /// Spans.
    pub traces: bool,
    /// Metrics.
    pub metrics: bool,
}

impl Default for Signals {
    /// Returns all signals.
    fn default() -> Self {
        Self { traces: true, metrics: true }
    }
}

/// A function that returns the part of a tool's calls that its spans have, by its full name. It must not block.
pub type ContentPolicy = Arc<dyn Fn(&str) -> Persistence + Send + Sync>;

/// Settings of the export.
///
/// ```
/// use fumehood_telemetry::{ExportOptions, OptionsError};
///
/// let variables = |name: &str| match name {
///     "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://127.0.0.1:4318".to_owned()),
///     "OTEL_TRACES_SAMPLER" => Some("parentbased_traceidratio".to_owned()),
///     "OTEL_TRACES_SAMPLER_ARG" => Some("0.1".to_owned()),
///     _ => None,
/// };
/// let options = ExportOptions { service_name: "orders".to_owned(), ..ExportOptions::default() };
/// let options = options.with_environment(variables)?;
/// assert_eq!(options.sampling, 0.1);
/// assert!(options.metrics_url().is_some());
/// # Ok::<(), OptionsError>(())
/// ```
#[derive(Clone)]
pub struct ExportOptions {
    /// The base URL of the collector, such as `http://127.0.0.1:4318`. `None` exports nothing.
    pub endpoint: Option<Url>,
    /// The URL for spans, instead of `/v1/traces` beneath the endpoint.
    pub traces_endpoint: Option<Url>,
    /// The URL for metrics, instead of `/v1/metrics` beneath the endpoint.
    pub metrics_endpoint: Option<Url>,
    /// Headers of requests to the collector. Values may be secret.
    pub headers: BTreeMap<String, String>,
    /// The share of traces that is exported if they begin here, 0 to 1.
    pub sampling: f64,
    /// True if MCP servers are told the trace of a call.
    pub propagates: bool,
    /// The part of arguments and results that spans have, at most 8 KiB of each. `None` for nothing.
    pub content: Option<ContentPolicy>,
    /// The signals that are exported.
    pub signals: Signals,
    /// The name of this service.
    pub service_name: String,
    /// The version of this service.
    pub service_version: String,
    /// Maximum time of one request to the collector.
    pub timeout: Duration,
    /// Maximum number of spans that wait to be sent; more are dropped, and counted.
    pub queue_length: usize,
    /// Time between two batches of spans.
    pub span_interval: Duration,
    /// Time between two reports of metrics.
    pub metric_interval: Duration,
}

impl fmt::Debug for ExportOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportOptions").field("sampling", &self.sampling).finish_non_exhaustive()
    }
}

impl Default for ExportOptions {
    /// Returns the defaults: no endpoint, and so nothing that is exported; all traces, without arguments and results; 2,048
    /// spans in the queue.
    fn default() -> Self {
        Self {
            endpoint: None,
            traces_endpoint: None,
            metrics_endpoint: None,
            headers: BTreeMap::new(),
            sampling: 1.0,
            propagates: true,
            content: None,
            signals: Signals::default(),
            service_name: "fumehood".to_owned(),
            service_version: env!("CARGO_PKG_VERSION").to_owned(),
            timeout: DEFAULT_TIMEOUT,
            queue_length: DEFAULT_QUEUE_LENGTH,
            span_interval: DEFAULT_SPAN_INTERVAL,
            metric_interval: DEFAULT_METRIC_INTERVAL,
        }
    }
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {name} `{value}`; expected {expected}")]
pub struct OptionsError {
    name: &'static str,
    value: String,
    expected: &'static str,
}

impl ExportOptions {
    /// Replaces settings by those of the standard variables that are set and not empty. `lookup` returns the value of one.
    ///
    /// # Errors
    /// If a variable has an invalid value, or asks for another protocol than `http/protobuf`.
    pub fn with_environment(mut self, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, OptionsError> {
        let get = |name: &'static str| lookup(name).filter(|value| !value.is_empty()).map(|value| (name, value));
        for (url, name) in [
            (&mut self.endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT"),
            (&mut self.traces_endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
            (&mut self.metrics_endpoint, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
        ] {
            if let Some((name, value)) = get(name) {
                *url = Some(parse_endpoint(name, &value)?);
            }
        }
        if let Some((name, value)) = get("OTEL_EXPORTER_OTLP_PROTOCOL").filter(|(_, value)| value != "http/protobuf") {
            return Err(OptionsError { name, value, expected: "http/protobuf, the only supported protocol" });
        }
        if let Some((name, value)) = get("OTEL_EXPORTER_OTLP_HEADERS") {
            for pair in value.split(',').filter(|pair| !pair.trim().is_empty()) {
                // The value may be a secret.
                let invalid = || OptionsError { name, value: "…".to_owned(), expected: "NAME=VALUE,NAME=VALUE" };
                let (header, value) = pair.split_once('=').ok_or_else(invalid)?;
                self.headers.insert(header.trim().to_owned(), decode(value.trim()).ok_or_else(invalid)?);
            }
        }
        for (time, name) in [
            (&mut self.timeout, "OTEL_EXPORTER_OTLP_TIMEOUT"),
            (&mut self.span_interval, "OTEL_BSP_SCHEDULE_DELAY"),
            (&mut self.metric_interval, "OTEL_METRIC_EXPORT_INTERVAL"),
        ] {
            if let Some((name, value)) = get(name) {
                *time = Duration::from_millis(parse(name, value, "a number of milliseconds, at least 1")?);
            }
        }
        if let Some((name, value)) = get("OTEL_BSP_MAX_QUEUE_SIZE") {
            self.queue_length = usize::try_from(parse(name, value, "a number, at least 1")?).unwrap_or(usize::MAX);
        }
        if let Some((name, value)) = get("OTEL_TRACES_SAMPLER") {
            self.sampling = match value.as_str() {
                "always_on" | "parentbased_always_on" => 1.0,
                "always_off" | "parentbased_always_off" => 0.0,
                "traceidratio" | "parentbased_traceidratio" => match get("OTEL_TRACES_SAMPLER_ARG") {
                    Some((name, value)) => parse_ratio(name, value)?,
                    None => 1.0,
                },
                _ => {
                    return Err(OptionsError {
                        name,
                        value,
                        expected: "parentbased_traceidratio or another standard sampler",
                    });
                }
            };
        }
        let is_off = |name| get(name).is_some_and(|(_, value)| value == "none");
        let is_disabled = get("OTEL_SDK_DISABLED").is_some_and(|(_, value)| value.eq_ignore_ascii_case("true"));
        self.signals.traces &= !is_off("OTEL_TRACES_EXPORTER") && !is_disabled;
        self.signals.metrics &= !is_off("OTEL_METRICS_EXPORTER") && !is_disabled;
        if let Some((_, value)) = get("OTEL_SERVICE_NAME") {
            self.service_name = value;
        }
        Ok(self)
    }

    /// Returns the URL for spans; `None` if none are exported.
    #[must_use]
    pub fn traces_url(&self) -> Option<Url> {
        let url = self.traces_endpoint.clone().or_else(|| below(self.endpoint.as_ref()?, "v1/traces"));
        url.filter(|_| self.signals.traces)
    }

    /// Returns the URL for metrics; `None` if none are exported.
    #[must_use]
    pub fn metrics_url(&self) -> Option<Url> {
        let url = self.metrics_endpoint.clone().or_else(|| below(self.endpoint.as_ref()?, "v1/metrics"));
        url.filter(|_| self.signals.metrics)
    }
}

/// Returns the URL of a signal beneath that of the collector (OTLP specification, section "Endpoint URLs for OTLP/HTTP").
fn below(endpoint: &Url, signal: &str) -> Option<Url> {
    let mut base = endpoint.clone();
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", base.path()));
    }
    base.join(signal).ok()
}

/// Parses the URL of a collector. `name` is that of the setting, for the error.
///
/// # Errors
/// If it is no `http` or `https` URL with a host.
pub fn parse_endpoint(name: &'static str, value: &str) -> Result<Url, OptionsError> {
    let url = Url::parse(value).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| OptionsError { name, value: value.to_owned(), expected: "a URL such as http://127.0.0.1:4318" })
}

fn parse(name: &'static str, value: String, expected: &'static str) -> Result<u64, OptionsError> {
    value.parse().ok().filter(|number| *number > 0).ok_or(OptionsError { name, value, expected })
}

fn parse_ratio(name: &'static str, value: String) -> Result<f64, OptionsError> {
    let ratio = value.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or(OptionsError { name, value, expected: "a number from 0 to 1" })
}

/// Decodes a percent-encoded value of a header; `None` if it is not one.
fn decode(value: &str) -> Option<String> {
    let value = percent_decode_str(value).decode_utf8().ok()?;
    (!value.contains(['\r', '\n', '\0'])).then(|| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<ExportOptions, String> {
        let lookup =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        ExportOptions::default().with_environment(lookup).map_err(|error| error.to_string())
    }

    #[test]
    fn endpoints_are_those_of_the_specification() {
        assert_eq!(urls_of(&[]), [None, None]);
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base");
        let [traces, metrics] = urls_of(&[base]);
        assert_eq!(traces.unwrap(), "http://collector:4318/base/v1/traces");
        assert_eq!(metrics.unwrap(), "http://collector:4318/base/v1/metrics");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://other/x");
        assert_eq!(urls_of(&[base, own])[0].as_deref(), Some("https://other/x"));
        assert_eq!(urls_of(&[base, ("OTEL_TRACES_EXPORTER", "none")])[0], None);
        assert_eq!(urls_of(&[base, ("OTEL_SDK_DISABLED", "true")]), [None, None]);
    }

    fn urls_of(variables: &[(&str, &str)]) -> [Option<String>; 2] {
        let options = read(variables).unwrap();
        [options.traces_url(), options.metrics_url()].map(|url| url.map(String::from))
    }

    #[test]
    fn variables_are_checked() {
        check_refusal("OTEL_EXPORTER_OTLP_ENDPOINT", "collector", "http://127.0.0.1:4318");
        check_refusal("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf");
        check_refusal("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "milliseconds");
        check_refusal("OTEL_TRACES_SAMPLER", "magic", "parentbased_traceidratio");
        let error = read(&[("OTEL_EXPORTER_OTLP_HEADERS", "secret")]).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }

    fn check_refusal(name: &str, value: &str, part: &str) {
        let error = read(&[(name, value)]).unwrap_err();
        assert!(error.contains(name) && error.contains(part), "{error}");
    }

    #[test]
    fn reads_sampling_and_headers() {
        let ratio = [("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.25")];
        assert!((read(&ratio).unwrap().sampling - 0.25).abs() < f64::EPSILON);
        let headers = read(&[("OTEL_EXPORTER_OTLP_HEADERS", "a=b%20c, d=e")]).unwrap().headers;
        assert_eq!((headers["a"].as_str(), headers["d"].as_str()), ("b c", "e"));
    }
}
