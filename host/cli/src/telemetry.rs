//! The telemetry of this process: installed by the commands that call tools, and flushed when the process ends.

use std::fmt::Display;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use fumehood::settings::read_value;
use fumehood::telemetry::{ContentPolicy, ExportOptions, Metrics, Telemetry, parse_endpoint};

use crate::config::Config;
use crate::exit::UsageError;
use crate::persist_rules::PersistRules;
use crate::{logging, render};

/// Maximum time in which queued spans and metrics are sent at the end of the process.
const MAX_FLUSH_TIME: Duration = Duration::from_secs(2);

/// The telemetry of this process, until it ends.
static TELEMETRY: Mutex<Option<Telemetry>> = Mutex::new(None);

/// The rules on arguments and results in spans.
static CONTENT: LazyLock<PersistRules> = LazyLock::new(PersistRules::default);

/// Takes the rules on arguments and results in spans from a configuration that changed.
pub(crate) fn update(config: &Config) {
    CONTENT.update(config);
}

/// Begins the log, and to send spans and metrics if a collector is configured.
///
/// # Errors
/// If a setting is invalid, or a secret of it cannot be read.
pub(crate) fn begin(config: &Config) -> Result<()> {
    let options = options(config)?;
    let is_exported = options.traces_url().is_some() || options.metrics_url().is_some();
    start(config, is_exported.then_some(&options)).map(drop)
}

/// Like [`begin`], and measures calls even without a collector, unless the configuration forbids it. Returns the metrics.
pub(crate) fn begin_metered(config: &Config) -> Result<Option<Arc<Metrics>>> {
    if config.telemetry.no_metrics {
        begin(config)?;
        let telemetry = TELEMETRY.lock().unwrap_or_else(PoisonError::into_inner);
        return Ok(telemetry.as_ref().map(Telemetry::metrics));
    }
    start(config, Some(&options(config)?))
}

/// Sends what is queued, for a short time.
pub(crate) fn end() {
    let telemetry = TELEMETRY.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(telemetry) = telemetry {
        telemetry.shutdown(MAX_FLUSH_TIME);
    }
}

fn start(config: &Config, options: Option<&ExportOptions>) -> Result<Option<Arc<Metrics>>> {
    let telemetry = options.map(|options| Telemetry::start(options, render::warning)).transpose()?;
    logging::begin(&config.logging, telemetry.as_ref());
    let metrics = telemetry.as_ref().map(Telemetry::metrics);
    *TELEMETRY.lock().unwrap_or_else(PoisonError::into_inner) = telemetry;
    Ok(metrics)
}

fn invalid(error: &dyn Display) -> UsageError {
    UsageError(format!("[telemetry] {error}"))
}

fn options(config: &Config) -> Result<ExportOptions> {
    update(config);
    let section = &config.telemetry;
    let endpoint = section.endpoint.as_deref().map(|endpoint| parse_endpoint("endpoint", endpoint)).transpose();
    let mut headers = section.headers.clone();
    for (name, source) in &section.secret_headers {
        let value = read_value(source, config.folder())
            .map_err(|error| invalid(&format!("`secret_headers.{name}`: {error}")))?;
        headers.insert(name.clone(), value.to_string());
    }
    let default = ExportOptions::default();
    let options = ExportOptions {
        endpoint: endpoint.map_err(|error| invalid(&error))?,
        headers,
        sampling: section.sampling.unwrap_or(default.sampling),
        propagates: !section.no_propagation,
        content: section.content.then(|| Arc::new(|tool: &str| CONTENT.get(tool)) as ContentPolicy),
        service_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..default
    };
    let variable = |name: &str| std::env::var(name).ok();
    Ok(options.with_environment(variable).map_err(|error| UsageError(error.to_string()))?)
}
