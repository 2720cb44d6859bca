//! The verifier of `[serve.oauth]`, and checks of it.

use fumehood::oauth::{ResourceServer, ResourceServerError, ResourceServerOptions};
use fumehood_config::fault::{KeyFault, key_fault};
use fumehood_config::file::Config;
use fumehood_config::oauth::OAuthSection;

/// Returns the options of the verifier.
pub(crate) fn options(oauth: &OAuthSection) -> ResourceServerOptions {
    ResourceServerOptions {
        audience: oauth.audience.clone(),
        jwks: oauth.jwks.clone(),
        scopes: oauth.scopes.clone(),
        tenant_claim: oauth.tenant_claim().to_owned(),
        default_tenant: oauth.default_tenant.clone(),
        ..ResourceServerOptions::new(&oauth.issuer, &oauth.resource)
    }
}

/// Adds the faults of the section, with those that involve tenants.
pub(super) fn check(faults: &mut Vec<KeyFault>, config: &Config) {
    let mut add = |path: &[&str], message: String| faults.push(key_fault(&[], path, message));
    let Some(oauth) = &config.serve.oauth else {
        for (name, tenant) in config.tenants.iter().filter(|(_, tenant)| !tenant.claims.is_empty()) {
            let first = tenant.claims.first().map(String::as_str).unwrap_or_default();
            let message = format!("the claim `{first}` needs an issuer of access tokens; add [serve.oauth]");
            add(&["tenants", name, "claims"], message);
        }
        return;
    };
    match ResourceServer::check(&options(oauth)) {
        Err(ResourceServerError::Address { key, why }) => add(&["serve", "oauth", key], why.to_owned()),
        Err(error) => add(&["serve", "oauth", "scopes"], error.to_string()),
        Ok(()) => {}
    }
    if config.tenants.is_empty() {
        let message =
            "no tenant has `claims`, so no access token could be used; add [tenants.NAME] with `claims`".to_owned();
        add(&["serve", "oauth"], message);
    }
    if let Some(name) = oauth.default_tenant.as_ref().filter(|name| !config.tenants.contains_key(*name)) {
        add(&["serve", "oauth", "default_tenant"], format!("[tenants.{name}] is missing; add it"));
    }
}
