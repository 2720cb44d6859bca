//! The resource server of OAuth 2.1: verification of access tokens, and the metadata by which clients find the issuer
//! (RFC 9728).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fumehood_core::boxed::BoxFuture;
use http::HeaderValue;
use serde_json::json;
use url::Url;

use crate::oauth::access_token::{Requirements, UnverifiedToken};
use crate::oauth::http_client::{HttpClient, RequestError, is_loopback};
use crate::oauth::key_source::{KeySource, MIN_FETCH_INTERVAL};
use crate::{TokenRefusal, TokenVerifier, VerifiedToken};

/// The path of the metadata of a resource without a path of its own.
const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// The issuer of access tokens, and what it has to say in them.
#[derive(Debug, Clone)]
pub struct ResourceServerOptions {
    /// The authorization server, exactly as its tokens name it.
    pub issuer: String,
    /// The URL of this server, as clients ask for tokens for it (RFC 8707).
    pub resource: String,
    /// The audience of tokens for this server, if that is not the resource.
    pub audience: Option<String>,
    /// The address of the issuer's keys, if it is not the one in the issuer's metadata.
    pub jwks: Option<String>,
    /// Scopes that every token must have.
    pub scopes: Vec<String>,
    /// The claim that names the tenant, such as `client_id`, `sub` or `scope`.
    pub tenant_claim: String,
    /// The tenant of tokens whose claim belongs to no other tenant. Without one they are rejected.
    pub default_tenant: Option<String>,
    /// Minimum time between two fetches of the issuer's keys.
    pub min_fetch_interval: Duration,
}

impl ResourceServerOptions {
    /// Returns options with tenants by `client_id` (RFC 9068), no required scope, and ten seconds between fetches.
    #[must_use]
    pub fn new(issuer: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            resource: resource.into(),
            audience: None,
            jwks: None,
            scopes: Vec::new(),
            tenant_claim: "client_id".to_owned(),
            default_tenant: None,
            min_fetch_interval: MIN_FETCH_INTERVAL,
        }
    }
}

/// Errors of [`ResourceServer::new`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceServerError {
    /// An address that cannot be used.
    #[error("`{key}`: {why}")]
    Address {
        /// The option: `issuer`, `resource` or `jwks`.
        key: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// A scope with characters that scopes do not have.
    #[error("invalid scope in `scopes`; expected visible ASCII characters without quotation marks and backslashes")]
    Scope,
    /// The HTTP client could not be created.
    #[error(transparent)]
    Client(#[from] RequestError),
}

/// A resource server, which verifies access tokens for the tenants of a listener.
#[derive(Debug)]
pub struct ResourceServer {
    keys: KeySource,
    required: Requirements,
    tenant_claim: String,
    default_tenant: Option<Arc<str>>,
    document: String,
    /// The path of the metadata, with that of the resource.
    metadata_path: String,
    metadata_url: String,
}

impl ResourceServer {
    /// Checks options without requesting anything.
    ///
    /// # Errors
    /// If a URL or a scope is malformed, or a URL is neither `https` nor on this machine.
    pub fn check(options: &ResourceServerOptions) -> Result<(), ResourceServerError> {
        parse_url("issuer", &options.issuer)?;
        parse_url("resource", &options.resource)?;
        if let Some(jwks) = &options.jwks {
            parse_url("jwks", jwks)?;
        }
        let is_scope = |scope: &String| {
            !scope.is_empty() && scope.bytes().all(|c| c.is_ascii_graphic() && c != b'"' && c != b'\\')
        };
        if options.scopes.iter().all(is_scope) { Ok(()) } else { Err(ResourceServerError::Scope) }
    }

    /// Creates a resource server. Nothing is requested before the first token.
    ///
    /// # Errors
    /// Like [`check`](Self::check), or if the root certificates cannot be read.
    pub fn new(options: ResourceServerOptions) -> Result<Self, ResourceServerError> {
        Self::check(&options)?;
        let issuer_url = parse_url("issuer", &options.issuer)?;
        let resource = parse_url("resource", &options.resource)?;
        let jwks = options.jwks.as_deref().map(|jwks| parse_url("jwks", jwks)).transpose()?;
        let configured: Vec<&Url> = std::iter::once(&issuer_url).chain(&jwks).collect();
        let http = HttpClient::new(&configured)?;
        let metadata_path = format!("{METADATA_PATH}{}", resource.path().trim_end_matches('/'));
        let mut document = json!({
            "resource": options.resource,
            "authorization_servers": [options.issuer],
            "bearer_methods_supported": ["header"],
        });
        if let (false, Some(members)) = (options.scopes.is_empty(), document.as_object_mut()) {
            members.insert("scopes_supported".to_owned(), options.scopes.clone().into());
        }
        Ok(Self {
            keys: KeySource::new(options.issuer.clone(), issuer_url, jwks, http, options.min_fetch_interval),
            required: Requirements {
                issuer: options.issuer,
                audience: options.audience.unwrap_or(options.resource),
                scopes: options.scopes,
            },
            tenant_claim: options.tenant_claim,
            default_tenant: options.default_tenant.map(Arc::from),
            document: document.to_string(),
            metadata_url: format!("{}{metadata_path}", resource.origin().ascii_serialization()),
            metadata_path,
        })
    }

    async fn verify_token(&self, token: &str) -> Result<VerifiedToken, TokenRefusal> {
        let token = UnverifiedToken::parse(token)?;
        let keys = self.keys.keys(|keys| keys.has_candidate(token.algorithm, token.key_id.as_deref())).await;
        let claims = token.verify(&*keys.ok_or(TokenRefusal::Unavailable)?)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        claims.check(&self.required, now)?;
        Ok(VerifiedToken { claims: claims.values(&self.tenant_claim), default_tenant: self.default_tenant.clone() })
    }
}

impl TokenVerifier for ResourceServer {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<VerifiedToken, TokenRefusal>> {
        Box::pin(self.verify_token(token))
    }

    fn metadata(&self, path: &str) -> Option<&str> {
        (path == METADATA_PATH || path == self.metadata_path).then_some(self.document.as_str())
    }

    fn challenge(&self, refusal: Option<TokenRefusal>) -> HeaderValue {
        let mut challenge = format!("Bearer resource_metadata=\"{}\"", self.metadata_url);
        let error = match refusal {
            Some(TokenRefusal::Invalid(why)) => Some(("invalid_token", why)),
            Some(TokenRefusal::InsufficientScope) => Some(("insufficient_scope", "the token lacks a scope")),
            _ => None,
        };
        if let Some((error, why)) = error {
            challenge
                .push_str(&format!(", error=\"{error}\", error_description=\"{}\"", why.replace(['"', '\\'], "'")));
        }
        if !self.required.scopes.is_empty() {
            challenge.push_str(&format!(", scope=\"{}\"", self.required.scopes.join(" ")));
        }
        HeaderValue::from_str(&challenge).unwrap_or(HeaderValue::from_static("Bearer"))
    }
}

fn parse_url(key: &'static str, text: &str) -> Result<Url, ResourceServerError> {
    let wrong = |why| ResourceServerError::Address { key, why };
    let url = Url::parse(text).map_err(|_| wrong("invalid URL; expected one such as https://auth.example.com"))?;
    if !(url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url)) || !url.has_host() {
        return Err(wrong("the URL must be https, or http on this machine"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(wrong("the URL has a user, a password or a fragment; remove it"));
    }
    if key != "jwks" && url.query().is_some() {
        return Err(wrong("the URL has a query; remove it"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_clients_where_to_get_tokens() {
        let plain = create_server("https://tools.example.com/mcp", &[]);
        assert_eq!(
            plain.challenge(None),
            "Bearer resource_metadata=\"https://tools.example.com/.well-known/oauth-protected-resource/mcp\""
        );
        for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
            let document: serde_json::Value = serde_json::from_str(plain.metadata(path).unwrap()).unwrap();
            assert_eq!(document["resource"], "https://tools.example.com/mcp");
            assert_eq!(document["authorization_servers"], serde_json::json!(["http://127.0.0.1:1"]));
        }
        assert_eq!(plain.metadata("/.well-known/oauth-protected-resource/v1"), None);
        let scoped = create_server("https://tools.example.com", &["call", "read"]);
        assert_eq!(
            scoped.challenge(Some(TokenRefusal::InsufficientScope)),
            "Bearer resource_metadata=\"https://tools.example.com/.well-known/oauth-protected-resource\", error=\"insufficient_scope\", error_description=\"the token lacks a scope\", scope=\"call read\""
        );
    }

    fn create_server(resource: &str, scopes: &[&str]) -> ResourceServer {
        let mut options = ResourceServerOptions::new("http://127.0.0.1:1", resource);
        options.scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        ResourceServer::new(options).unwrap()
    }

    #[test]
    fn rejects_addresses_and_scopes_that_cannot_be_used() {
        let issuer = "https://auth.example.com/realm";
        let resource = "https://tools.example.com/mcp";
        assert!(is_accepted(issuer, resource, "tools:call"));
        assert!(is_accepted("http://localhost:1", "http://127.0.0.1:8080", "a"));
        for wrong in [
            "",
            "auth.example.com",
            "http://auth.example.com",
            "https://me@auth.example.com",
            "https://a.example/#x",
            "https://a.example/?x",
            "ftp://localhost",
        ] {
            assert!(!is_accepted(wrong, resource, "a") && !is_accepted(issuer, wrong, "a"), "{wrong}");
        }
        for wrong in ["", "a b", "a\"b", "a\\b", "\u{e4}"] {
            assert!(!is_accepted(issuer, resource, wrong), "{wrong}");
        }
    }

    fn is_accepted(issuer: &str, resource: &str, scope: &str) -> bool {
        let mut options = ResourceServerOptions::new(issuer, resource);
        options.scopes = vec![scope.to_owned()];
        ResourceServer::check(&options).is_ok()
    }
}
