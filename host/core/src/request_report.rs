//! How a request of a tool went.

use serde::{Deserialize, Serialize};

/// How one HTTP request of a call went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestReport {
    /// The method.
    pub method: String,
    /// The host, and the port if it is not the usual one. Neither path nor query: they may hold what is nobody's business.
    pub host: String,
    /// What the server answered, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why it was refused, or what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes sent: address, headers and body.
    pub bytes_out: u64,
    /// Bytes received: headers and body.
    pub bytes_in: u64,
}
