//! The events that are printed: the level, and the directives of `RUST_LOG`.

use fumehood::log::TELEMETRY;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::Directive;
use tracing_subscriber::layer::{Context, Filter};

use crate::config::logging::LogLevel;

/// Prefix of the targets of this project.
const OUR_TARGETS: &str = "fumehood";
/// Prefix of the targets of rmcp.
const RMCP_TARGETS: &str = "rmcp::";

/// The directives of a filter, and the parts of `RUST_LOG` that are none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directives {
    /// The level of our targets.
    pub(super) level: LogLevel,
    /// Directives for `EnvFilter`.
    pub(super) text: String,
    /// Parts that cannot be read.
    pub(super) ignored: Vec<String>,
}

impl Directives {
    /// Joins the level that was typed, those of `RUST_LOG`, and the level that holds without either.
    ///
    /// A level alone in `RUST_LOG` is for our targets: libraries print addresses and codes of logins below `warn`. A target that
    /// an operator names is printed at the level that the operator gives it.
    ///
    /// Without a level, libraries are silent unless `is_service`: other commands report their errors in their own words.
    pub(super) fn new(typed: Option<LogLevel>, variable: Option<&str>, otherwise: LogLevel, is_service: bool) -> Self {
        let mut bare = None;
        let mut named = Vec::new();
        let mut ignored = Vec::new();
        let parts = variable.unwrap_or_default().split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            if let Some(level) = parse_level(part) {
                bare = Some(level);
            } else if part.parse::<Directive>().is_ok() {
                named.push(part);
            } else {
                ignored.push(part.to_owned());
            }
        }
        let level = typed.or(bare).unwrap_or(otherwise);
        let is_asked_for = is_service || typed.or(bare).is_some();
        let of_others = if is_asked_for { level.min(LogLevel::Warn) } else { LogLevel::Off }.as_str();
        let mut text = format!("{of_others},{OUR_TARGETS}={}", level.as_str());
        for directive in named {
            text.push(',');
            text.push_str(directive);
        }
        Self { level, text, ignored }
    }
}

fn parse_level(text: &str) -> Option<LogLevel> {
    let level = text.parse::<LevelFilter>().ok()?;
    Some(match level.into_level() {
        None => LogLevel::Off,
        Some(Level::ERROR) => LogLevel::Error,
        Some(Level::WARN) => LogLevel::Warn,
        Some(Level::INFO) => LogLevel::Info,
        Some(Level::DEBUG) => LogLevel::Debug,
        Some(Level::TRACE) => LogLevel::Trace,
    })
}

/// The filter of the log.
#[derive(Debug)]
pub(super) struct LogFilter {
    filter: EnvFilter,
    /// True if a directive names a span. Otherwise none is created for the log.
    has_spans: bool,
    /// True if events about single calls are printed, which telemetry counts.
    has_calls: bool,
}

impl LogFilter {
    pub(super) fn new(directives: &Directives) -> Self {
        let filter = EnvFilter::builder().parse_lossy(&directives.text);
        let has_spans = directives.text.contains('[');
        Self { filter, has_spans, has_calls: directives.level >= LogLevel::Debug }
    }

    /// Returns whether an event may be printed, whatever its level is.
    fn may_print(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        if target == TELEMETRY && metadata.is_event() {
            return self.has_calls;
        }
        // rmcp prints authorization codes and the answers of token endpoints.
        let is_login = target.starts_with(RMCP_TARGETS) && target.contains("auth");
        (metadata.is_event() || self.has_spans) && !(is_login && *metadata.level() > Level::INFO)
    }
}

impl<S: Subscriber> Filter<S> for LogFilter {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        self.may_print(metadata) && Filter::enabled(&self.filter, metadata, context)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.may_print(metadata) { Filter::<S>::callsite_enabled(&self.filter, metadata) } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Filter::<S>::max_level_hint(&self.filter)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        Filter::on_new_span(&self.filter, attributes, id, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        Filter::on_record(&self.filter, id, values, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        Filter::on_enter(&self.filter, id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        Filter::on_exit(&self.filter, id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        Filter::on_close(&self.filter, id, context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(typed: Option<LogLevel>, variable: &str) -> String {
        Directives::new(typed, Some(variable), LogLevel::Info, true).text
    }

    #[test]
    fn bare_level_is_for_our_targets() {
        assert_eq!(text(None, ""), "warn,fumehood=info");
        assert_eq!(text(None, "debug"), "warn,fumehood=debug");
        assert_eq!(text(None, "ERROR"), "error,fumehood=error");
        assert_eq!(text(None, "off"), "off,fumehood=off");
        assert_eq!(
            text(None, "fumehood::mcp=trace, hyper=debug"),
            "warn,fumehood=info,fumehood::mcp=trace,hyper=debug"
        );
    }

    #[test]
    fn typed_level_comes_before_the_variable() {
        assert_eq!(text(Some(LogLevel::Warn), "trace,hyper=debug"), "warn,fumehood=warn,hyper=debug");
        let unreadable = Directives::new(None, Some("info,a=b=c,fumehood=loud"), LogLevel::Warn, false);
        assert_eq!(unreadable.text, "warn,fumehood=info");
        assert_eq!(unreadable.ignored, ["a=b=c", "fumehood=loud"]);
        assert_eq!(Directives::new(None, None, LogLevel::Warn, false).text, "off,fumehood=warn");
    }
}
