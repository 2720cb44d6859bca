//! `[serve.oauth]`: the authorization server whose access tokens clients over HTTP may show.

use fumehood::oauth::{ResourceServer, ResourceServerError, ResourceServerOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{KeyFault, key_fault};
use super::file::Config;

/// The authorization server whose access tokens (OAuth 2.1) are accepted, in addition to the tokens of [tenants].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OAuthSection {
    /// The authorization server, exactly as `iss` in its tokens, such as "https://auth.example.com".
    pub(crate) issuer: String,
    /// The URL of this server for its clients, such as "https://tools.example.com". Access tokens must be issued for
    /// this URL.
    pub(crate) resource: String,
    /// The value that `aud` of a token must contain. Default: the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) audience: Option<String>,
    /// The URL of the issuer's keys (JWKS). Default: from the issuer's metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jwks: Option<String>,
    /// Scopes that every token must have. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) scopes: Vec<String>,
    /// The claim that selects the tenant, such as "sub" or "scope". It is compared with `claims` of [tenants]. Default:
    /// "client_id".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant_claim: Option<String>,
    /// The tenant for tokens that match no tenant. Default: such tokens are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) default_tenant: Option<String>,
}

impl OAuthSection {
    /// Returns the name of the claim by which tenants are found.
    pub(crate) fn tenant_claim(&self) -> &str {
        self.tenant_claim.as_deref().unwrap_or("client_id")
    }

    /// Returns the options of the verifier.
    pub(crate) fn options(&self) -> ResourceServerOptions {
        ResourceServerOptions {
            audience: self.audience.clone(),
            jwks: self.jwks.clone(),
            scopes: self.scopes.clone(),
            tenant_claim: self.tenant_claim().to_owned(),
            default_tenant: self.default_tenant.clone(),
            ..ResourceServerOptions::new(&self.issuer, &self.resource)
        }
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
    match ResourceServer::check(&oauth.options()) {
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
