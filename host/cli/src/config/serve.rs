//! `[serve]`: tools for other programs.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Time};
use super::secret::ValueSource;

/// Tools for other programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServeSection {
    /// The address for HTTP, such as "127.0.0.1:8080". Usually none: standard input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<String>,
    /// The source of the token that callers over HTTP have to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<ValueSource>,
    /// Do without a token. Only for addresses of this machine.
    #[serde(default)]
    pub(crate) no_token: bool,
    /// Values of the Host header that are accepted besides those of the address itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) allowed_hosts: Vec<String>,
    /// Web pages that may call, such as "https://app.example.com". Usually none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) allowed_origins: Vec<String>,
    /// Only these tools, by their full names, are offered. Usually all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    /// Maximum number of calls that run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) concurrency: Option<NonZeroU32>,
    /// Maximum number of calls that wait in line; more are refused at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<u32>,
    /// Size of one request over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body_limit: Option<Bytes>,
    /// Time that calls have to end after being told to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grace: Option<Time>,
}
