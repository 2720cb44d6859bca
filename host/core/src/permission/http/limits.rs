//! How much of the network one call may use.

use std::time::Duration;

use serde::Serialize;

/// How much of the network one call may use. Times are also cut to what is left of the call's deadline, and to what the
/// tool itself asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct HttpLimits {
    /// Requests that go out. 32.
    pub requests: u32,
    /// Bytes sent: addresses, headers and bodies of all requests. 1 MiB.
    pub bytes_out: u64,
    /// Bytes received: headers and bodies of all responses, as they come, so compressed ones count compressed. 10 MiB.
    pub bytes_in: u64,
    /// Requests that run at once; more wait for one of these to end. 8.
    pub in_flight: u32,
    /// From looking up the name until there is a connection. 10 s.
    pub connect: Duration,
    /// From there until it is encrypted. 10 s.
    pub tls: Duration,
    /// From there until the response's headers are complete, so sending the body counts. 30 s.
    pub first_byte: Duration,
    /// From one piece of the response's body to the next. 30 s.
    pub between_bytes: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            requests: 32,
            bytes_out: 1 << 20,
            bytes_in: 10 << 20,
            in_flight: 8,
            connect: Duration::from_secs(10),
            tls: Duration::from_secs(10),
            first_byte: Duration::from_secs(30),
            between_bytes: Duration::from_secs(30),
        }
    }
}

impl HttpLimits {
    /// The name of a limit that is zero, so that no request could succeed.
    pub(super) fn zero(&self) -> Option<&'static str> {
        let limits = [
            ("requests", self.requests == 0),
            ("bytes_out", self.bytes_out == 0),
            ("bytes_in", self.bytes_in == 0),
            ("in_flight", self.in_flight == 0),
            ("connect", self.connect.is_zero()),
            ("tls", self.tls.is_zero()),
            ("first_byte", self.first_byte.is_zero()),
            ("between_bytes", self.between_bytes.is_zero()),
        ];
        limits.into_iter().find_map(|(name, zero)| zero.then_some(name))
    }
}
