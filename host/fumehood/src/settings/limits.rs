//! The limits of one call, as they are written.

use fumehood_core::call::limits::Limits;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Count, Time};

/// Limits of one call. A limit that is left out has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LimitsSection {
    /// Wall time for a call, such as "2s". Usually 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Instructions for a call, such as "500M". Usually 10G.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<Count>,
    /// Memory for a call, such as "64MiB". Usually 64MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Size of a result, such as "1MiB". Usually 1MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Bytes>,
    /// Size of log lines and progress, and of stdout and stderr. Usually 256KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Bytes>,
    /// Size of a single string in the arguments, such as "100KiB". Usually 10KiB, and for a property that has a `maxLength`
    /// whatever that allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<Bytes>,
}

impl LimitsSection {
    /// Returns `defaults`, overridden by the limits that are written here.
    pub fn over(&self, defaults: Limits) -> Limits {
        Limits {
            deadline: self.deadline.map_or(defaults.deadline, |time| time.0),
            fuel: self.fuel.map_or(defaults.fuel, |count| count.0),
            memory: self.memory.map_or(defaults.memory, |bytes| bytes.0),
            output: self.output.map_or(defaults.output, |bytes| bytes.0),
            log: self.log.map_or(defaults.log, |bytes| bytes.0),
            string: self.string.map(|bytes| bytes.0).or(defaults.string),
            ..defaults
        }
    }
}
