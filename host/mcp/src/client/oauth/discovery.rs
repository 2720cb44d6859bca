//! The way from an MCP server to its authorization server (RFC 9728, RFC 8414).

use std::sync::Arc;

use reqwest::Url;
use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadataSource};

use super::credential_file::CredentialFile;
use super::http_client::OAuthClient;
use super::{LoginError, OAuthOptions};

/// The scope that has the authorization server give a token for refreshes.
const OFFLINE_ACCESS: &str = "offline_access";

/// An authorization server that was found.
pub(super) struct Discovered {
    /// rmcp's state machine, with the metadata and the file of the tokens.
    pub(super) manager: AuthorizationManager,
    pub(super) client: Arc<OAuthClient>,
    /// The scopes of a login, in the order of their precedence: configured ones, those of the server's challenge, those of its
    /// metadata.
    pub(super) scopes: Vec<String>,
}

/// Finds the authorization server of the server at this URL.
///
/// # Errors
/// If there is none, its metadata cannot be used, or it is not the one that the client's secret is for.
pub(super) async fn discover(url: &str, options: &OAuthOptions) -> Result<Discovered, LoginError> {
    let server = Url::parse(url).map_err(AuthError::from)?;
    let configured = options.authorization_server.as_deref();
    let authorization_server = configured.map(Url::parse).transpose().map_err(AuthError::from)?;
    let client = OAuthClient::new(&server, authorization_server.as_ref());
    let client = Arc::new(client.map_err(|error| AuthError::InternalError(error.to_string()))?);
    let http = Arc::clone(&client);
    let mut manager = AuthorizationManager::new_with_oauth_http_client(url, http).await?;
    manager.set_credential_store(CredentialFile::new(&options.file, url));
    // Of the request that clients make: a server need not answer others with a challenge.
    let challenge = client.challenge(&server).await;
    let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await?;
    // Endpoints that nobody published are guesses of the first revision.
    if found.source == AuthorizationMetadataSource::LegacyEndpointFallback {
        return Err(LoginError::NoAuthorizationServer);
    }
    let issuer = found.metadata.issuer.as_deref();
    // The server says where to log in, and must not say where the secret goes.
    if options.client_secret.is_some() && !is_same(issuer, configured) {
        return Err(LoginError::Issuer(issuer.unwrap_or("one without a name").to_owned()));
    }
    let is_offered = |scopes: &Vec<String>| scopes.iter().any(|scope| scope == OFFLINE_ACCESS);
    let offers_refresh = found.metadata.scopes_supported.as_ref().is_some_and(is_offered);
    manager.set_metadata(found.metadata);
    let mut scopes = options.scopes.clone();
    if scopes.is_empty() {
        scopes = manager.select_initial_scopes(&[]).await;
    } else if offers_refresh && !is_offered(&scopes) {
        scopes.push(OFFLINE_ACCESS.to_owned());
    }
    Ok(Discovered { manager, client, scopes })
}

/// Returns whether two identifiers of an authorization server are the same, but for a slash at the end.
fn is_same(issuer: Option<&str>, configured: Option<&str>) -> bool {
    let plain = |url: &str| url.trim_end_matches('/').to_owned();
    issuer.is_some() && issuer.map(plain) == configured.map(plain)
}
