//! Limits on the TCP connections of one call, as they are written.

use fumehood_core::policy::permission::tcp::TcpLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::{Bytes, Count, Time};
use crate::http_limits::{count_or, time_or};

/// Limits on the TCP connections of one call. A limit that is left out has its default.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpLimitsSection {
    /// Maximum number of connections that are opened, and of names that are looked up. Default: 8.
    pub connections: Option<Count>,
    /// Maximum bytes that all connections together send. Default: 1MiB.
    pub bytes_out: Option<Bytes>,
    /// Maximum bytes that all connections together receive. Default: 10MiB.
    pub bytes_in: Option<Bytes>,
    /// Maximum time to look up a name, and to connect. Default: 10s.
    pub connect: Option<Time>,
}

impl TcpLimitsSection {
    /// Returns the limits; those that are left out have their defaults.
    ///
    /// # Errors
    /// If a count is larger than any that a limit may have.
    pub fn limits(&self) -> Result<TcpLimits, String> {
        let default = TcpLimits::default();
        Ok(TcpLimits {
            connections: count_or(self.connections, default.connections)?,
            bytes_out: self.bytes_out.map_or(default.bytes_out, |bytes| bytes.0 as u64),
            bytes_in: self.bytes_in.map_or(default.bytes_in, |bytes| bytes.0 as u64),
            connect: time_or(self.connect, default.connect),
        })
    }
}
