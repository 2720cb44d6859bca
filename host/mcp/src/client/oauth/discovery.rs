//! The way from an MCP server to its authorization server (RFC 9728, RFC 8414).

use std::sync::Arc;

use fumehood_transport::Url;
use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource};

use super::credential_file::Origin;
use super::http_client::OAuthClient;
use super::{LoginError, OAuthOptions};

/// Paths of the metadata of an issuer: before its own path (RFC 8414, section 3.1, and OpenID Connect), and after it.
const WELL_KNOWN: [(&str, bool); 3] = [
    ("/.well-known/oauth-authorization-server", true),
    ("/.well-known/openid-configuration", true),
    ("/.well-known/openid-configuration", false),
];

/// The scope that has the authorization server give a token for refreshes.
const OFFLINE_ACCESS: &str = "offline_access";

/// An authorization server that was found.
pub(super) struct DiscoveredServer {
    /// rmcp's state machine, with the metadata.
    pub(super) manager: AuthorizationManager,
    pub(super) token_endpoint: String,
    pub(super) issuer: Option<String>,
    pub(super) client: Arc<OAuthClient>,
    /// The scopes of a login, in the order of their precedence: configured ones, those of the server's challenge, those of its
    /// metadata.
    pub(super) scopes: Vec<String>,
}

/// Whose endpoints are used. A server says where to log in, and must not say where secrets go.
pub(super) enum Trust<'a> {
    /// Those of anybody: there is no secret yet.
    Anybody,
    /// Those that the issuer publishes, for a secret that was configured with it; `None` if no issuer was.
    Issuer(Option<&'a str>),
    /// The one that issued the tokens, or those that its issuer publishes by now.
    Origin(&'a Origin),
}

/// Finds the authorization server of the server at this URL.
///
/// # Errors
/// If there is none, its metadata cannot be used, or it is not trusted.
pub(super) async fn discover(
    url: &str,
    options: &OAuthOptions,
    trust: Trust<'_>,
) -> Result<DiscoveredServer, LoginError> {
    let server = Url::parse(url).map_err(AuthError::from)?;
    let authorization_server =
        options.authorization_server.as_deref().map(Url::parse).transpose().map_err(AuthError::from)?;
    let client = OAuthClient::new(&server, authorization_server.as_ref());
    let client = Arc::new(client.map_err(|error| AuthError::InternalError(error.to_string()))?);
    let http = Arc::clone(&client);
    let mut manager = AuthorizationManager::new_with_oauth_http_client(url, http).await?;
    // Of the request that clients make: a server need not answer others with a challenge.
    let challenge = client.fetch_challenge(&server).await;
    let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await?;
    // Endpoints that nobody published are guesses of the first revision.
    if found.source == AuthorizationMetadataSource::LegacyEndpointFallback {
        return Err(LoginError::NoAuthorizationServer);
    }
    check_trust(&client, trust, &found.metadata).await?;
    let token_endpoint = found.metadata.token_endpoint.clone();
    let issuer = found.metadata.issuer.clone();
    let offers_refresh = found.metadata.scopes_supported.as_deref().is_some_and(has_offline_access);
    manager.set_metadata(found.metadata);
    let mut scopes = options.scopes.clone();
    if scopes.is_empty() {
        scopes = manager.select_initial_scopes(&[]).await;
    } else if offers_refresh && !has_offline_access(&scopes) {
        scopes.push(OFFLINE_ACCESS.to_owned());
    }
    Ok(DiscoveredServer { manager, token_endpoint, issuer, client, scopes })
}

fn has_offline_access(scopes: &[String]) -> bool {
    scopes.iter().any(|scope| scope == OFFLINE_ACCESS)
}

async fn check_trust(client: &OAuthClient, trust: Trust<'_>, found: &AuthorizationMetadata) -> Result<(), LoginError> {
    let endpoint = found.token_endpoint.as_str();
    match trust {
        Trust::Issuer(issuer) if !is_vouched_for(client, issuer, found).await => Err(LoginError::issuer(endpoint)),
        Trust::Origin(Origin { token_endpoint, issuer, .. }) => {
            let is_other = issuer.as_deref().is_some_and(|issuer| found.issuer.as_deref() != Some(issuer));
            let is_known = token_endpoint.as_deref() == Some(endpoint);
            if is_other || !(is_known || is_vouched_for(client, issuer.as_deref(), found).await) {
                return Err(LoginError::moved(endpoint));
            }
            Ok(())
        }
        Trust::Anybody | Trust::Issuer(_) => Ok(()),
    }
}

/// Returns whether the issuer itself publishes the endpoints of metadata. Metadata that a server points to may be anybody's,
/// and name any issuer.
async fn is_vouched_for(client: &OAuthClient, issuer: Option<&str>, found: &AuthorizationMetadata) -> bool {
    let Some(Ok(issuer)) = issuer.map(Url::parse) else { return false };
    let own = issuer.path().trim_end_matches('/');
    for (path, is_before) in WELL_KNOWN {
        let mut url = issuer.clone();
        url.set_path(&if is_before { format!("{path}{own}") } else { format!("{own}{path}") });
        let Some(published) = client.fetch_metadata(&url).await else { continue };
        let is_own = published.issuer.as_deref().is_some_and(|name| is_same(name, issuer.as_str()));
        return is_own
            && published.token_endpoint == found.token_endpoint
            && published.authorization_endpoint == found.authorization_endpoint;
    }
    false
}

/// Returns whether two identifiers of an authorization server are the same, but for a slash at the end.
fn is_same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}
