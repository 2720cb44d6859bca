//! Limits on the requests of one call, as they are written.

use std::time::Duration;

use fumehood_core::policy::permission::http::HttpLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::{Bytes, Count, Time};

/// Limits on the requests of one call. A limit that is left out has its default.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpLimitsSection {
    /// Maximum number of requests.
    pub requests: Option<Count>,
    /// Maximum bytes that all requests together send.
    pub bytes_out: Option<Bytes>,
    /// Maximum bytes that all requests together receive.
    pub bytes_in: Option<Bytes>,
    /// Maximum number of concurrent requests.
    pub in_flight: Option<Count>,
    /// Maximum time to look up the name and connect. Default: 10s. Times never extend the deadline of the call.
    pub connect: Option<Time>,
    /// Maximum time for the TLS handshake. Default: 10s.
    pub tls: Option<Time>,
    /// Maximum time from then until the headers of the response are complete. Default: 30s.
    pub first_byte: Option<Time>,
    /// Maximum time between two pieces of the response. Default: 30s.
    pub between_bytes: Option<Time>,
}

impl HttpLimitsSection {
    /// Returns the limits; those that are left out have their defaults.
    ///
    /// # Errors
    /// If a count is larger than any that a limit may have.
    pub fn limits(&self) -> Result<HttpLimits, String> {
        let default = HttpLimits::default();
        let bytes_out = self.bytes_out.map_or(default.bytes_out, |bytes| bytes.0 as u64);
        let bytes_in = self.bytes_in.map_or(default.bytes_in, |bytes| bytes.0 as u64);
        Ok(HttpLimits {
            requests: count_or(self.requests, default.requests)?,
            bytes_out,
            bytes_in,
            in_flight: count_or(self.in_flight, default.in_flight)?,
            connect: time_or(self.connect, default.connect),
            tls: time_or(self.tls, default.tls),
            first_byte: time_or(self.first_byte, default.first_byte),
            between_bytes: time_or(self.between_bytes, default.between_bytes),
        })
    }
}

pub(crate) fn count_or(count: Option<Count>, default: u32) -> Result<u32, String> {
    let Some(Count(count)) = count else { return Ok(default) };
    u32::try_from(count).map_err(|_| format!("{count} is too large; the maximum is {}", u32::MAX))
}

pub(crate) fn time_or(time: Option<Time>, default: Duration) -> Duration {
    time.map_or(default, |time| time.0)
}
