//! The limits of one call, as they are written.

use fumehood_core::call::limits::Limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::{Bytes, Count, Time};

/// Limits of one call. A limit that is left out has its default.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Limits"))]
#[serde(deny_unknown_fields)]
pub struct LimitsSection {
    /// Maximum wall time of a call, such as "2s". Default: 10s.
    #[cfg_attr(
        feature = "clap",
        arg(id = "limits.deadline", long = "timeout", value_name = "TIME", allow_negative_numbers = true)
    )]
    pub deadline: Option<Time>,
    /// Maximum fuel of a call, about one unit per instruction, such as "500M". Default: 10G.
    #[cfg_attr(
        feature = "clap",
        arg(id = "limits.fuel", long = "fuel", value_name = "COUNT", allow_negative_numbers = true)
    )]
    pub fuel: Option<Count>,
    /// Maximum memory of a call, such as "128MiB". Default: 64MiB.
    #[cfg_attr(
        feature = "clap",
        arg(id = "limits.memory", long = "memory", value_name = "BYTES", allow_negative_numbers = true)
    )]
    pub memory: Option<Bytes>,
    /// Maximum size of a result, such as "4MiB". Default: 1MiB.
    #[cfg_attr(
        feature = "clap",
        arg(id = "limits.output", long = "max-output", value_name = "BYTES", allow_negative_numbers = true)
    )]
    pub output: Option<Bytes>,
    /// Maximum size of log lines, progress, stdout and stderr together. Default: 256KiB.
    #[cfg_attr(
        feature = "clap",
        arg(id = "limits.log", long = "max-log", value_name = "BYTES", allow_negative_numbers = true)
    )]
    pub log: Option<Bytes>,
    /// Maximum size of a single string in the arguments, such as "100KiB". If the schema of a property has a
    /// `maxLength`, that applies instead. Default: 10KiB.
    #[cfg_attr(
        feature = "clap",
        arg(id = "limits.string", long = "max-string", value_name = "BYTES", allow_negative_numbers = true)
    )]
    pub string: Option<Bytes>,
}

impl LimitsSection {
    /// Returns the limits that are written here, and those of `other` that are not.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            deadline: self.deadline.or(other.deadline),
            fuel: self.fuel.or(other.fuel),
            memory: self.memory.or(other.memory),
            output: self.output.or(other.output),
            log: self.log.or(other.log),
            string: self.string.or(other.string),
        }
    }

    /// Returns `defaults`, overridden by the limits that are written here.
    pub fn over(&self, defaults: Limits) -> Limits {
        defaults
            .deadline(self.deadline.map_or(defaults.deadline, |time| time.0))
            .fuel(self.fuel.map_or(defaults.fuel, |count| count.0))
            .memory(self.memory.map_or(defaults.memory, |bytes| bytes.0))
            .output(self.output.map_or(defaults.output, |bytes| bytes.0))
            .log(self.log.map_or(defaults.log, |bytes| bytes.0))
            .string(self.string.map(|bytes| bytes.0).or(defaults.string))
    }
}
