//! `[tenants.NAME]`: the clients over HTTP, and what each may use.

use std::num::NonZeroU32;

use fumehood::Digest;
use fumehood::listener::{Tenant, TenantLimits, ToolFilter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Count};
use super::fault::{KeyFault, key_fault};
use super::file::Config;
use super::hooks::tools_of;

/// Maximum length of a name or an actor, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Maximum bytes that the calls of a tenant write to the event log in a day, unless its section says another.
const DEFAULT_LOG_BYTES_PER_DAY: u64 = 1 << 30;

/// A tenant: an HTTP client with a separate token, tools and limits. `fumehood token new NAME` creates its token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantSection {
    /// Digests of its tokens, "sha256:…", as `fumehood token new` prints them. To replace a token, list both for a
    /// while.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tokens: Vec<String>,
    /// Values of the claim `tenant_claim` in [serve.oauth]. Access tokens with one of them belong to this tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) claims: Vec<String>,
    /// The actor of its calls, which tools can read. Default: the name of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<String>,
    /// Patterns of the tools that it can use, such as "web__*". Default: all tools that are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    /// Let it answer approvals of its own sessions. Default: false; use `fumehood approve-call` or the dashboard.
    #[serde(default)]
    pub(crate) approves: bool,
    /// Let the sampled flag of its `traceparent` decide whether traces are sent. Default: false; `sampling` in
    /// [telemetry] decides.
    #[serde(default)]
    pub(crate) decides_sampling: bool,
    /// Maximum requests per minute. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) requests_per_minute: Option<NonZeroU32>,
    /// Maximum concurrent requests. Default: 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) concurrency: Option<NonZeroU32>,
    /// Maximum fuel of all its calls per minute, such as "10G". Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fuel_per_minute: Option<Count>,
    /// Maximum calls per day (UTC). Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) calls_per_day: Option<Count>,
    /// Maximum fuel of all its calls per day (UTC). Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fuel_per_day: Option<Count>,
    /// Maximum bytes that its calls write to the event log per day (UTC). Default: "1GiB".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log_bytes_per_day: Option<Bytes>,
}

impl TenantSection {
    fn actor<'a>(&'a self, name: &'a str) -> &'a str {
        self.actor.as_deref().unwrap_or(name)
    }

    /// Returns the tenant, or the key that is wrong and why.
    fn tenant(&self, name: &str) -> Result<Tenant, (&'static str, String)> {
        let digest = |token: &String| token.parse::<Digest>().map_err(|error| ("tokens", error.to_string()));
        let tokens = self.tokens.iter().map(digest).collect::<Result<_, _>>()?;
        let patterns = tools_of(self.tools.as_deref()).map_err(|error| ("tools", error.to_string()))?;
        let tools = match &self.tools {
            Some(rule) => ToolFilter::new(rule.join(" "), move |tool| patterns.matches(tool)),
            None => ToolFilter::default(),
        };
        let limits = TenantLimits {
            requests_per_minute: self.requests_per_minute,
            concurrent_requests: self.concurrency,
            fuel_per_minute: self.fuel_per_minute.map(|count| count.0),
            calls_per_day: self.calls_per_day.map(|count| count.0),
            fuel_per_day: self.fuel_per_day.map(|count| count.0),
            log_bytes_per_day: Some(self.log_bytes_per_day.map_or(DEFAULT_LOG_BYTES_PER_DAY, |bytes| bytes.0 as u64)),
        };
        let tenant = Tenant::with_claims(name, self.claims.clone()).actor(self.actor(name)).tools(tools).limits(limits);
        let tenant = tenant.approves(self.approves).decides_sampling(self.decides_sampling);
        Ok(Tenant { tokens, ..tenant })
    }
}

/// Returns the tenants of a configuration. Those that are malformed were reported when it was read.
pub(crate) fn tenants(config: &Config) -> Vec<Tenant> {
    config.tenants.iter().filter_map(|(name, section)| section.tenant(name).ok()).collect()
}

/// Returns whether a text can be the name or the actor of a tenant.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |c: u8| c.is_ascii_alphanumeric() || b"._-@".contains(&c);
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(fits)
}

/// Adds the faults of all tenants.
pub(super) fn check(faults: &mut Vec<KeyFault>, config: &Config) {
    for (name, section) in &config.tenants {
        let mut add = |keys: &[&str], message: String| faults.push(key_fault(&["tenants", name], keys, message));
        for (keys, text) in [(&[] as &[&str], name.as_str()), (&["actor"], section.actor(name))] {
            if !is_name(text) && (keys.is_empty() || text != name) {
                let what = keys.first().unwrap_or(&"name");
                add(
                    keys,
                    format!(
                        "invalid {what} `{text}` of a tenant; expected at most {MAX_NAME_BYTES} letters, digits, `.`, \
                         `_`, `-` and `@`"
                    ),
                );
            }
        }
        let is_default = config.serve.oauth.as_ref().is_some_and(|oauth| oauth.default_tenant.as_ref() == Some(name));
        if section.tokens.is_empty() && section.claims.is_empty() && !is_default {
            let message = format!("the tenant `{name}` has no token; create one with `fumehood token new {name}`");
            add(&["tokens"], message);
        }
        if section.claims.iter().any(String::is_empty) {
            add(&["claims"], "the claim is empty; leave it out".to_owned());
        }
        if let Err((key, message)) = section.tenant(name) {
            add(&[key], message);
        }
        let zero = [
            ("fuel_per_minute", section.fuel_per_minute),
            ("calls_per_day", section.calls_per_day),
            ("fuel_per_day", section.fuel_per_day),
        ];
        if section.log_bytes_per_day.is_some_and(|bytes| bytes.0 == 0) {
            add(
                &["log_bytes_per_day"],
                "a tenant with `log_bytes_per_day = 0` cannot make calls; leave it out for 1 GiB".to_owned(),
            );
        }
        for (key, _) in zero.into_iter().filter(|(_, count)| count.is_some_and(|count| count.0 == 0)) {
            add(&[key], format!("a tenant with `{key} = 0` cannot make calls; leave it out for no limit"));
        }
        let others = config.tenants.iter().take_while(|(other, _)| *other != name);
        for (other, before) in others {
            if before.actor(other) == section.actor(name) {
                add(&["actor"], format!("`{other}` has the same actor; give each tenant a different actor"));
            }
            if section.tokens.iter().any(|token| before.tokens.contains(token)) {
                add(&["tokens"], format!("`{other}` has the same token; create one for each tenant"));
            }
            if section.claims.iter().any(|claim| before.claims.contains(claim)) {
                add(&["claims"], format!("`{other}` has the same claim; a token can belong to only one tenant"));
            }
        }
    }
    let serve = &config.serve;
    for (key, is_set) in [("token", serve.token.is_some()), ("no_token", serve.no_token)] {
        if is_set && !config.tenants.is_empty() {
            let message = format!("`{key}` conflicts with [tenants]; leave one of them out");
            faults.push((vec!["serve".to_owned(), key.to_owned()], message));
        }
    }
}
