//! The log of this program: events of `tracing` as lines on standard error or in the systemd journal.
//!
//! The subscriber is installed once for a process. Commands that read the configuration before they call tools install it
//! with the settings there and with telemetry, all others with what was typed.

mod filter;
mod line;
mod output;
mod repeats;
mod service;

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use fumehood::telemetry::Telemetry;
use tracing::{Event, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use self::filter::{Directives, LogFilter};
use self::line::Line;
use self::output::{Destination, Output};
pub(crate) use self::output::{Hold, lift_bar, lift_many_bars};
use self::repeats::Repeats;
pub(crate) use self::service::{Starting, emit_started, emit_stopped, emit_stopping};
use crate::config::logging::{LogFormat, LogLevel, LoggingSection};
use crate::service_manager::Journal;

/// The variable with directives for single targets.
const VARIABLE: &str = "RUST_LOG";
/// Target of messages for people that have no event of their own.
pub(crate) const NOTICE: &str = "fumehood::notice";
/// Maximum time in which queued lines are written at the end of the process.
const MAX_FLUSH_TIME: Duration = Duration::from_secs(1);
/// Events that commands report to people in other words, next to the text for people.
const REPORTED: [&str; 5] =
    ["approval.needed", "component.reloaded", "component.unloaded", "mcp.list_changed", "serve.started"];

/// The settings of the log on the command line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TypedLogging {
    pub(crate) level: Option<LogLevel>,
    pub(crate) format: Option<LogFormat>,
    /// True for a command that runs until it is stopped, whose operator reads the log.
    pub(crate) is_service: bool,
    /// True for a command that stages attacks and reports itself what they did.
    pub(crate) is_drill: bool,
}

static TYPED: OnceLock<TypedLogging> = OnceLock::new();
static LOG: OnceLock<Log> = OnceLock::new();

/// The log of this process.
#[derive(Debug)]
struct Log {
    /// True for a service whose lines are read by programs: every message has to be one.
    replaces_notices: bool,
    repeats: Repeats,
    output: Output,
}

/// Sets what was typed, for [`begin`].
pub(crate) fn set_typed(typed: TypedLogging) {
    let _set_before = TYPED.set(typed);
}

/// Installs the subscriber of this process: the log, and the layer of telemetry. Does nothing if there is one.
pub(crate) fn begin(section: &LoggingSection, telemetry: Option<&Telemetry>) {
    let typed = TYPED.get().copied().unwrap_or_default();
    // A configuration that a service and a person share changes nothing of what the person sees.
    let section = if typed.is_service { *section } else { LoggingSection::default() };
    let default = match typed {
        TypedLogging { is_service: true, .. } => LogLevel::Info,
        TypedLogging { is_drill: true, .. } => LogLevel::Off,
        _ => LogLevel::Warn,
    };
    let variable = std::env::var(VARIABLE).ok();
    let directives = Directives::new(typed.level, variable.as_deref(), section.level.unwrap_or(default));
    let format = typed.format.or(section.format).unwrap_or_default();
    let destination = destination(format);
    let has_journal = matches!(destination, Destination::Journal(_));
    let log = LOG.get_or_init(|| Log::new(destination, typed.is_service));
    let lines = LogLayer(log).with_filter(LogFilter::new(&directives));
    let subscriber = Registry::default().with(lines).with(telemetry.map(Telemetry::layer));
    let _has_one = tracing::subscriber::set_global_default(subscriber);
    for part in &directives.ignored {
        tracing::warn!(name: "log.ignored", target: fumehood::log::SERVE, { part }, "ignored a part of {VARIABLE}");
    }
    if format == LogFormat::Journald && !has_journal {
        tracing::warn!(
            name: "log.no_journal",
            target: fumehood::log::SERVE,
            "the systemd journal cannot be reached; the log goes to standard error"
        );
    }
}

/// Returns whether messages for people are events of the log instead.
pub(crate) fn replaces_notices() -> bool {
    LOG.get().is_some_and(|log| log.replaces_notices)
}

/// Writes the lines that wait, for a short time.
pub(crate) fn end() {
    if let Some(log) = LOG.get() {
        log.output.flush(MAX_FLUSH_TIME);
    }
}

/// Holds back lines until the guard is dropped, because something else owns the terminal.
pub(crate) fn hold() -> Hold {
    Hold::new(LOG.get().map(|log| &log.output))
}

/// Returns the place of lines in this format.
fn destination(format: LogFormat) -> Destination {
    let journal = match format {
        LogFormat::Journald => Journal::open(),
        LogFormat::Auto => Journal::of_stderr(),
        LogFormat::Pretty | LogFormat::Json => None,
    };
    match (format, journal) {
        (_, Some(journal)) => Destination::Journal(journal),
        (LogFormat::Json, None) => Destination::Json,
        _ => Destination::Pretty,
    }
}

impl Log {
    fn new(destination: Destination, is_service: bool) -> Self {
        let replaces_notices = is_service && !matches!(destination, Destination::Pretty);
        Self { replaces_notices, repeats: Repeats::default(), output: Output::new(destination) }
    }
}

/// The layer that makes lines of events.
struct LogLayer(&'static Log);

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if !self.0.replaces_notices && REPORTED.contains(&metadata.name()) {
            return;
        }
        let suppressed = match metadata.target() {
            NOTICE => Some(0),
            _ => self.0.repeats.admit(metadata, Instant::now()),
        };
        if let Some(suppressed) = suppressed {
            self.0.output.write(Line::new(event, SystemTime::now()).suppressed(suppressed));
        }
    }
}
