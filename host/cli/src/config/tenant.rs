//! `[tenants.NAME]`: the clients over HTTP, and what each may use.

use std::num::NonZeroU32;

use fumehood::Digest;
use fumehood::listener::{Tenant, TenantLimits, ToolFilter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Count};
use super::fault::KeyFault;
use super::file::Config;
use super::hooks::tools_of;

/// Maximum length of a name or an actor, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Maximum bytes that the calls of a tenant write to the event log in a day, unless its section says another.
const DEFAULT_LOG_BYTES_PER_DAY: u64 = 1 << 30;

/// A client over HTTP, and what it may use. `fumehood token new NAME` makes its token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantSection {
    /// Digests of its tokens, as `fumehood token new` prints them, such as "sha256:…". Two while one replaces the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tokens: Vec<String>,
    /// Values of the claim `tenant_claim` of [serve.oauth], by which access tokens are those of this tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) claims: Vec<String>,
    /// The actor of its calls, which tools can read. Usually the name of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<String>,
    /// Patterns of the tools that exist for it, such as "web__*". Usually all that are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    /// Let it answer the approvals of its own sessions. Usually not: `fumehood approve-call` and the dashboard do.
    #[serde(default)]
    pub(crate) approves: bool,
    /// Let the sampled flag of its `traceparent` decide whether traces of its calls are sent. Usually `sampling` of [telemetry] does.
    #[serde(default)]
    pub(crate) decides_sampling: bool,
    /// Requests in a minute. Usually any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) requests_per_minute: Option<NonZeroU32>,
    /// Requests at one time. Usually 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) concurrency: Option<NonZeroU32>,
    /// Instructions of all its calls in a minute, such as "10G". Usually any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fuel_per_minute: Option<Count>,
    /// Calls in a day (UTC). Usually any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) calls_per_day: Option<Count>,
    /// Instructions of all its calls in a day (UTC). Usually any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fuel_per_day: Option<Count>,
    /// Bytes that its calls write to the event log in a day (UTC). Usually "1GiB".
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
        let mut add = |keys: &[&str], message: String| {
            let path = ["tenants", name].into_iter().chain(keys.iter().copied());
            faults.push((path.map(str::to_owned).collect(), message));
        };
        for (keys, text) in [(&[] as &[&str], name.as_str()), (&["actor"], section.actor(name))] {
            if !is_name(text) && (keys.is_empty() || text != name) {
                let what = keys.first().unwrap_or(&"name");
                add(
                    keys,
                    format!(
                        "the {what} `{text}` of a tenant has other characters than letters, digits, `.`, `_`, `-` and `@`, or more than {MAX_NAME_BYTES}"
                    ),
                );
            }
        }
        let is_default = config.serve.oauth.as_ref().is_some_and(|oauth| oauth.default_tenant.as_ref() == Some(name));
        if section.tokens.is_empty() && section.claims.is_empty() && !is_default {
            let message =
                format!("the tenant `{name}` has no token, so it cannot call; `fumehood token new {name}` makes one");
            add(&["tokens"], message);
        }
        if section.claims.iter().any(String::is_empty) {
            add(&["claims"], "an empty claim is that of nobody; leave it out".to_owned());
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
                "a tenant with `log_bytes_per_day` of 0 can make no call; leave it out for 1 GiB".to_owned(),
            );
        }
        for (key, _) in zero.into_iter().filter(|(_, count)| count.is_some_and(|count| count.0 == 0)) {
            add(&[key], format!("a tenant with `{key}` of 0 can make no call; leave it out for any number"));
        }
        let others = config.tenants.iter().take_while(|(other, _)| *other != name);
        for (other, before) in others {
            if before.actor(other) == section.actor(name) {
                add(
                    &["actor"],
                    format!("`{other}` has the same actor, by which calls are found again; give each its own"),
                );
            }
            if section.tokens.iter().any(|token| before.tokens.contains(token)) {
                add(&["tokens"], format!("`{other}` has the same token; make one for each"));
            }
            if section.claims.iter().any(|claim| before.claims.contains(claim)) {
                add(&["claims"], format!("`{other}` has the same claim; a token is that of one tenant"));
            }
        }
    }
    let serve = &config.serve;
    for (key, is_set) in [("token", serve.token.is_some()), ("no_token", serve.no_token)] {
        if is_set && !config.tenants.is_empty() {
            let message = format!("[tenants] says who may call, and so does `{key}`; leave one of them out");
            faults.push((vec!["serve".to_owned(), key.to_owned()], message));
        }
    }
}
