//! The tenants of `[tenants.NAME]`, and checks of them.

use fumehood::Digest;
use fumehood::listener::{Tenant, TenantLimits, ToolFilter};
use fumehood_config::fault::{KeyFault, key_fault};
use fumehood_config::file::Config;
use fumehood_config::tenant::TenantSection;

use super::hooks::tools_of;

/// Maximum length of a name or an actor, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Maximum bytes that the calls of a tenant write to the event log in a day, unless its section says another.
const DEFAULT_LOG_BYTES_PER_DAY: u64 = 1 << 30;

fn actor_of<'a>(section: &'a TenantSection, name: &'a str) -> &'a str {
    section.actor.as_deref().unwrap_or(name)
}

/// Returns the tenant, or the key that is wrong and why.
fn tenant(section: &TenantSection, name: &str) -> Result<Tenant, (&'static str, String)> {
    let digest = |token: &String| token.parse::<Digest>().map_err(|error| ("tokens", error.to_string()));
    let tokens = section.tokens.iter().map(digest).collect::<Result<_, _>>()?;
    let patterns = tools_of(section.tools.as_deref()).map_err(|error| ("tools", error.to_string()))?;
    let tools = match &section.tools {
        Some(rule) => ToolFilter::new(rule.join(" "), move |tool| patterns.matches(tool)),
        None => ToolFilter::default(),
    };
    let limits = TenantLimits {
        requests_per_minute: section.requests_per_minute,
        concurrent_requests: section.concurrency,
        fuel_per_minute: section.fuel_per_minute.map(|count| count.0),
        calls_per_day: section.calls_per_day.map(|count| count.0),
        fuel_per_day: section.fuel_per_day.map(|count| count.0),
        log_bytes_per_day: Some(section.log_bytes_per_day.map_or(DEFAULT_LOG_BYTES_PER_DAY, |bytes| bytes.0 as u64)),
    };
    let tenant =
        Tenant::with_claims(name, section.claims.clone()).actor(actor_of(section, name)).tools(tools).limits(limits);
    let tenant = tenant.approves(section.approves).decides_sampling(section.decides_sampling);
    Ok(Tenant { tokens, ..tenant })
}

/// Returns the tenants of a configuration. Those that are malformed were reported when it was read.
pub(crate) fn tenants(config: &Config) -> Vec<Tenant> {
    config.tenants.iter().filter_map(|(name, section)| tenant(section, name).ok()).collect()
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
        for (keys, text) in [(&[] as &[&str], name.as_str()), (&["actor"], actor_of(section, name))] {
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
        if let Err((key, message)) = tenant(section, name) {
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
            if actor_of(before, other) == actor_of(section, name) {
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
