//! Events of `serve` and `worker`: their start, what they serve and where, and their end.

use std::time::Duration;

use fumehood::log::SERVE;

/// Maximum number of names of tools in an event.
const MAX_NAMES: usize = 64;

/// A service that begins to load what it serves.
#[derive(Debug, Clone)]
pub(crate) struct Starting<'a> {
    /// The command, such as `serve http`.
    pub(crate) command: &'static str,
    /// The configuration file; `None` without one.
    pub(crate) configuration: Option<String>,
    /// The isolation mode.
    pub(crate) isolation: &'a str,
    /// The place of the event log; `None` if calls are not recorded.
    pub(crate) event_log: Option<String>,
}

impl Starting<'_> {
    /// Emits the event.
    pub(crate) fn emit(self) {
        let Self { command, configuration, isolation, event_log } = self;
        let version = env!("CARGO_PKG_VERSION");
        let pid = std::process::id();
        tracing::info!(
            name: "serve.starting", target: SERVE,
            { command, version, pid, configuration, isolation, event_log }, "starting"
        );
    }
}

/// Emits the event of a service that accepts calls. `message` is the text for people, `address` the place where calls arrive, and
/// `tools` are the names of what can be called.
pub(crate) fn emit_started(message: &str, address: &str, tools: &[String]) {
    let mut names = tools.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(" ");
    if tools.len() > MAX_NAMES {
        names.push_str(" …");
    }
    tracing::info!(name: "serve.started", target: SERVE, { address, tools = tools.len(), names }, "{message}");
}

/// Emits the event of a service that accepts no more calls. Running ones may end within `grace`.
pub(crate) fn emit_stopping(reason: &str, grace: Duration) {
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(name: "serve.stopping", target: SERVE, { reason, grace_ms }, "stopping");
}

/// Emits the event of a service that has ended, with the reason if that is a failure.
pub(crate) fn emit_stopped(failure: Option<String>) {
    match failure {
        None => tracing::info!(name: "serve.stopped", target: SERVE, "stopped"),
        Some(reason) => tracing::error!(name: "serve.stopped", target: SERVE, { reason }, "stopped after a failure"),
    }
}
