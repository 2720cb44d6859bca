//! A login in a browser: the address to open, and the redirect back to this machine (RFC 8252).

use std::fmt;
use std::time::Duration;

use fumehood_core::text::sanitize::printable;
use fumehood_transport::Url;
use rmcp::transport::auth::{AuthError, AuthorizationRequest, AuthorizationSession};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::credential_file::{CredentialFile, Origin};
use super::discovery::{DiscoveredServer, Trust, discover};
use super::{ClientSecret, OAuthOptions};

/// Path of the redirect.
const CALLBACK_PATH: &str = "/callback";
/// Name of this program, as authorization servers show it.
const CLIENT_NAME: &str = "Fumehood";
/// Maximum size of the head of a request to the redirect, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum length of what another party says in an error, in characters.
const MAX_QUOTED_CHARS: usize = 500;
/// Maximum time of one request to the redirect.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Errors of logging in and out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The server names no authorization server.
    #[error("the server does not name an authorization server; it may need no login, or a token in `bearer`")]
    NoAuthorizationServer,
    /// The server names endpoints that the authorization server of the secret does not publish.
    #[error("the client secret would be sent to `{0}`, which `login.authorization_server` does not publish")]
    Issuer(String),
    /// The server names another authorization server for refreshes than the one that issued the tokens.
    #[error(
        "the tokens of this login would be sent to `{0}`, which may not have issued them; log in again if you trust it"
    )]
    Moved(String),
    /// Discovery, registration or the exchange of the code failed.
    #[error("the login failed: {0}")]
    Failed(String),
    /// An address that must not be opened.
    #[error("the authorization server names a forbidden address: {0}")]
    Address(String),
    /// The authorization server, or the person, refused.
    #[error("the authorization server refused the login: {0}")]
    Refused(String),
    /// Nobody came back in time.
    #[error("no login within {0:?}; try again")]
    Late(Duration),
    /// A failure of the system.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

impl LoginError {
    /// Creates the error of an endpoint that must not get the secret.
    pub(super) fn issuer(endpoint: &str) -> Self {
        Self::Issuer(quoted(endpoint))
    }

    /// Creates the error of an endpoint that must not get the tokens.
    pub(super) fn moved(endpoint: &str) -> Self {
        Self::Moved(quoted(endpoint))
    }
}

impl From<AuthError> for LoginError {
    fn from(error: AuthError) -> Self {
        let mut why = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            why.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Self::Failed(quoted(&why))
    }
}

/// A login that waits for a person.
pub struct Login {
    session: AuthorizationSession,
    listener: TcpListener,
    /// Known to the authorization server and to nobody else, so that no page can end the login with its own code.
    state: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

impl Login {
    /// Finds the authorization server of the server at this URL, registers this program there unless it has an
    /// identifier, and begins to listen for the redirect.
    ///
    /// # Errors
    /// If there is none, or it does not support what is needed.
    pub async fn begin(url: &str, options: &OAuthOptions) -> Result<Self, LoginError> {
        let trust = match &options.client_secret {
            Some(_) => Trust::Issuer(options.authorization_server.as_deref()),
            None => Trust::Anybody,
        };
        let DiscoveredServer { mut manager, token_endpoint, issuer, client, scopes } =
            discover(url, options, trust).await?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let redirect = format!("http://{}{CALLBACK_PATH}", listener.local_addr()?);
        let mut origin = Origin { issuer, client_secret: None, token_endpoint: Some(token_endpoint) };
        let (id, secret) = match &options.client_id {
            Some(id) => (id.clone(), options.client_secret.clone()),
            None => {
                let asked: Vec<&str> = scopes.iter().map(String::as_str).collect();
                let registered = manager.register_client(CLIENT_NAME, &redirect, &asked).await?;
                origin.client_secret = registered.client_secret.map(ClientSecret::new);
                (registered.client_id, origin.client_secret.clone())
            }
        };
        manager.set_credential_store(CredentialFile::with_origin(&options.file, url, origin));
        let request = AuthorizationRequest::new(redirect)
            .with_initial_scope_selection()
            .with_scopes(scopes)
            .with_preregistered_client(id);
        let request = match &secret {
            Some(secret) => request.with_client_secret(secret.reveal()),
            None => request,
        };
        let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)?;
        let address = Url::parse(&session.auth_url).map_err(|error| LoginError::Address(error.to_string()))?;
        client.check(&address).map_err(|error| LoginError::Address(error.to_string()))?;
        let state = address.query_pairs().find(|(name, _)| name == "state");
        let state = state.map(|(_, state)| state.into_owned()).unwrap_or_default();
        Ok(Self { session, listener, state })
    }

    /// Returns the address to open in a browser.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.session.auth_url
    }

    /// Waits until somebody has logged in, and keeps the tokens.
    ///
    /// # Errors
    /// If the login is refused, nobody logs in in time, or the tokens cannot be had or kept.
    pub async fn finish(self, timeout: Duration) -> Result<(), LoginError> {
        let callback = tokio::time::timeout(timeout, self.callback()).await;
        let callback = callback.map_err(|_| LoginError::Late(timeout))??;
        let error =
            |name: &str| callback.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        if let Some(code) = error("error") {
            let description = error("error_description").map(|text| format!(" ({text})")).unwrap_or_default();
            return Err(LoginError::Refused(quoted(&format!("{code}{description}"))));
        }
        self.session.handle_callback_url(callback.as_str()).await?;
        Ok(())
    }

    /// Waits for the redirect with the state of this login. Other requests are answered, and change nothing.
    async fn callback(&self) -> Result<Url, LoginError> {
        let base = Url::parse(&self.session.redirect_uri).map_err(|error| LoginError::Address(error.to_string()))?;
        let (found, mut callbacks) = mpsc::channel(1);
        loop {
            let stream = tokio::select! {
                callback = callbacks.recv() => return callback.ok_or(LoginError::NoAuthorizationServer),
                accepted = self.listener.accept() => accepted?.0,
            };
            let found = found.clone();
            let base = base.clone();
            let state = self.state.clone();
            // A browser opens connections that it does not use; they must not keep others waiting.
            tokio::spawn(async move {
                let answered = tokio::time::timeout(REQUEST_TIMEOUT, answer(stream, &base, &state)).await;
                if let Ok(Some(callback)) = answered {
                    let _login_ended = found.send(callback).await;
                }
            });
        }
    }
}

/// Answers a request to the redirect, and returns its URL if it ends the login.
async fn answer(mut stream: TcpStream, base: &Url, state: &str) -> Option<Url> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut buffer = [0; 1024];
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        head.extend_from_slice(buffer.get(..read)?);
        if head.len() > MAX_HEAD_BYTES {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut words = head.split(' ');
    let target = match (words.next(), words.next()) {
        (Some("GET"), Some(target)) if target.starts_with('/') => base.join(target).ok(),
        _ => None,
    };
    let callback = target.filter(|url| {
        let states: Vec<_> = url.query_pairs().filter(|(name, _)| name == "state").map(|(_, value)| value).collect();
        url.origin() == base.origin() && url.path() == CALLBACK_PATH && states == [state]
    });
    let (status, text) = match &callback {
        Some(_) => ("200 OK", "You are logged in. You can close this page.\n"),
        None => ("400 Bad Request", "This page does not belong to the current login.\n"),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         content-security-policy: default-src 'none'\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    let _browser_left = stream.write_all(answer.as_bytes()).await;
    let _browser_left = stream.shutdown().await;
    callback
}

/// Returns a text that another party may have written, with hidden characters escaped, and not too long.
fn quoted(text: &str) -> String {
    let text: String = text.chars().take(MAX_QUOTED_CHARS).collect();
    printable(&text).to_string()
}

/// Removes the tokens of a server. Returns whether there were any.
///
/// # Errors
/// If they cannot be removed.
pub fn logout(options: &OAuthOptions) -> std::io::Result<bool> {
    CredentialFile::new(&options.file, "").remove()
}
