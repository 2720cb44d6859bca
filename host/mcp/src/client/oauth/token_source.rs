//! Access tokens for the requests to a server: from the file of a login, refreshed before they expire.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fumehood_core::log;
use fumehood_server::Token;
use rmcp::transport::auth::{AuthError, OAuthClientConfig, StoredCredentials};
use tokio::sync::Mutex;

use super::credential_file::{CredentialFile, Origin};
use super::discovery::{DiscoveredServer, Trust, discover};
use super::{LoginError, OAuthOptions};

/// Maximum time before its end at which a token is refreshed: half of its life, if that is short.
const MAX_REFRESH_AHEAD: Duration = Duration::from_secs(60);
/// Time that tokens without a known end are used before the file is read again.
const REREAD_INTERVAL: Duration = Duration::from_secs(60);

/// The source of access tokens for one server.
pub(in crate::client) struct TokenSource {
    url: String,
    options: OAuthOptions,
    file: CredentialFile,
    current: Mutex<Option<Current>>,
}

/// A token, and the time since 1970 until which it is used.
struct Current {
    token: String,
    until: Duration,
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSource").field("url", &self.url).finish_non_exhaustive()
    }
}

impl TokenSource {
    pub(in crate::client) fn new(url: &str, options: &OAuthOptions) -> Self {
        let file = CredentialFile::new(&options.file, url);
        Self { url: url.to_owned(), options: options.clone(), file, current: Mutex::default() }
    }

    /// Returns the URL of the server without its query, which may have a secret.
    fn shown_url(&self) -> &str {
        self.url.split(['?', '#']).next().unwrap_or_default()
    }

    /// Returns how to log in.
    pub(in crate::client) fn hint(&self) -> &str {
        &self.options.hint
    }

    /// Returns the token for the next request; `None` without a login. Where a token cannot be refreshed, the server is
    /// asked without one, and its answer says what is missing.
    pub(in crate::client) async fn token(&self) -> Option<String> {
        let mut current = self.current.lock().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Some(Current { token, .. }) = current.as_ref().filter(|current| now < current.until) {
            return Some(token.clone());
        }
        *current = None;
        let stored = match self.file.read() {
            Ok(stored) => stored?,
            Err(error) => {
                log::emit_login_failed(self.shown_url(), format_args!("cannot read its tokens: {error}"));
                return None;
            }
        };
        let (token, until) = match token_of(&stored, now) {
            Some(found) => found,
            None => match self.refresh().await {
                Ok(found) => found,
                Err(error) => {
                    log::emit_login_failed(self.shown_url(), format_args!("cannot refresh its token: {error}"));
                    return None;
                }
            },
        };
        // What could not be a header is no token.
        Token::from_foreign(&token).ok()?;
        *current = Some(Current { token: token.clone(), until });
        Some(token)
    }

    /// Forgets the token that the server did not accept, so that the next request reads the file again.
    pub(in crate::client) async fn forget(&self) {
        *self.current.lock().await = None;
    }

    async fn refresh(&self) -> Result<(String, Duration), LoginError> {
        let unreadable = |error: std::io::Error| AuthError::CredentialStoreError(error.to_string());
        let _held = self.file.hold().await?;
        let (stored, origin) = self.file.read_all().map_err(unreadable)?.ok_or(AuthError::AuthorizationRequired)?;
        // Another process may have refreshed them, or logged in, meanwhile.
        if let Some(found) = token_of(&stored, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()) {
            return Ok(found);
        }
        let trust = match &self.options.client_secret {
            Some(_) => Trust::Issuer(self.options.authorization_server.as_deref()),
            None => Trust::Origin(&origin),
        };
        let DiscoveredServer { mut manager, token_endpoint, .. } = discover(&self.url, &self.options, trust).await?;
        let origin = Origin { token_endpoint: Some(token_endpoint), ..origin };
        let registered = origin.client_secret.clone();
        manager.set_credential_store(CredentialFile::with_origin(&self.options.file, &self.url, origin).held());
        // Tokens of another authorization server are not used.
        if !manager.initialize_from_store().await? {
            return Err(AuthError::AuthorizationRequired.into());
        }
        if let Some(secret) = self.options.client_secret.as_ref().or(registered.as_ref()) {
            let client = OAuthClientConfig::new(stored.client_id, self.url.as_str());
            manager.configure_client(client.with_client_secret(secret.reveal()))?;
        }
        manager.refresh_token().await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let stored = self.file.read().map_err(unreadable)?;
        let stored = stored.ok_or(AuthError::AuthorizationRequired)?;
        // One that ends at once is used once.
        let (token, _) = token_parts(&stored).ok_or(AuthError::AuthorizationRequired)?;
        Ok(token_of(&stored, now).unwrap_or((token, now)))
    }
}

/// Returns the token and the time since 1970 at which it is refreshed, if its end is known.
fn token_parts(stored: &StoredCredentials) -> Option<(String, Option<Duration>)> {
    // The accessors are methods of a trait of another crate; the form is that of RFC 6749, section 5.1.
    let response = serde_json::to_value(stored.token_response.as_ref()?).ok()?;
    let token = response.get("access_token")?.as_str()?.to_owned();
    let lifetime = response.get("expires_in").and_then(serde_json::Value::as_u64);
    let refresh_at = stored.token_received_at.zip(lifetime).map(|(at, seconds)| {
        let lifetime = Duration::from_secs(seconds);
        let used = lifetime.saturating_sub(MAX_REFRESH_AHEAD.min(lifetime / 2));
        Duration::from_secs(at).saturating_add(used)
    });
    Some((token, refresh_at))
}

/// Returns the token and the time until which it is used; `None` if it has to be refreshed now.
fn token_of(stored: &StoredCredentials, now: Duration) -> Option<(String, Duration)> {
    let (token, refresh_at) = token_parts(stored)?;
    let until = refresh_at.unwrap_or(now.saturating_add(REREAD_INTERVAL));
    (now < until).then_some((token, until))
}
