//! `[tenants.NAME]`: the clients over HTTP, and what each may use.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::{Bytes, Count};

/// A tenant: an HTTP client with a separate token, tools and limits. `fumehood token new NAME` creates its token.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantSection {
    /// Digests of its tokens, "sha256:…", as `fumehood token new` prints them. To replace a token, list both for a
    /// while.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<String>,
    /// Values of the claim `tenant_claim` in [serve.oauth]. Access tokens with one of them belong to this tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// The actor of its calls, which tools can read. Default: the name of the tenant.
    pub actor: Option<String>,
    /// Patterns of the tools that it can use, such as "web__*". Default: all tools that are served.
    pub tools: Option<Vec<String>>,
    /// Let it answer approvals of its own sessions. Default: false; use `fumehood approve-call` or the dashboard.
    #[serde(default)]
    pub approves: bool,
    /// Let the sampled flag of its `traceparent` decide whether traces are sent. Default: false; `sampling` in
    /// [telemetry] decides.
    #[serde(default)]
    pub decides_sampling: bool,
    /// Maximum requests per minute. Default: no limit.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Maximum concurrent requests. Default: 256.
    pub concurrency: Option<NonZeroU32>,
    /// Maximum fuel of all its calls per minute, such as "10G". Default: no limit.
    pub fuel_per_minute: Option<Count>,
    /// Maximum calls per day (UTC). Default: no limit.
    pub calls_per_day: Option<Count>,
    /// Maximum fuel of all its calls per day (UTC). Default: no limit.
    pub fuel_per_day: Option<Count>,
    /// Maximum bytes that its calls write to the event log per day (UTC). Default: "1GiB".
    pub log_bytes_per_day: Option<Bytes>,
}
