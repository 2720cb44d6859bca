//! `[serve.oauth]`: the authorization server whose access tokens clients over HTTP may show.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The authorization server whose access tokens (OAuth 2.1) are accepted, in addition to the tokens of [tenants].
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OAuthSection {
    /// The authorization server, exactly as `iss` in its tokens, such as "https://auth.example.com".
    pub issuer: String,
    /// The URL of this server for its clients, such as "https://tools.example.com". Access tokens must be issued for
    /// this URL.
    pub resource: String,
    /// The value that `aud` of a token must contain. Default: the resource.
    pub audience: Option<String>,
    /// The URL of the issuer's keys (JWKS). Default: from the issuer's metadata.
    pub jwks: Option<String>,
    /// Scopes that every token must have. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The claim that selects the tenant, such as "sub" or "scope". It is compared with `claims` of [tenants]. Default:
    /// "client_id".
    pub tenant_claim: Option<String>,
    /// The tenant for tokens that match no tenant. Default: such tokens are refused.
    pub default_tenant: Option<String>,
}

impl OAuthSection {
    /// Returns the name of the claim by which tenants are found.
    #[must_use]
    pub fn tenant_claim(&self) -> &str {
        self.tenant_claim.as_deref().unwrap_or("client_id")
    }
}
