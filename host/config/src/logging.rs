//! The `[logging]` section: what a service writes about its operation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The log of `serve` and `worker`: lines about the operation of the service. `--log-level`, `--log-format` and RUST_LOG
/// override these keys. Records of calls are in the event log, see [log].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoggingSection {
    /// The minimum level of a line. Default: "info".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<LogLevel>,
    /// The form of a line. Default: "auto".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<LogFormat>,
}

/// The minimum level of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Faults that need an operator.
    Error,
    /// Faults that an operator should know.
    Warn,
    /// Also changes of state, such as a component that was loaded.
    Info,
    /// Also details for finding a fault.
    Debug,
    /// Everything.
    Trace,
}

/// The form of a line of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// The journal if systemd connected standard error to it, otherwise text.
    #[default]
    Auto,
    /// Text for people, on standard error.
    Pretty,
    /// One JSON object on each line, on standard error.
    Json,
    /// Entries of the systemd journal, with the fields of an event as fields.
    Journald,
}

impl LogLevel {
    /// Returns the name of the level in a filter.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}
