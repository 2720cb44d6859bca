//! The HTTP client of rmcp's OAuth, on top of ours.

use fumehood_server::oauth::{HttpClient, RequestError};
use fumehood_transport::Url;
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{Request, StatusCode};
use rmcp::transport::auth::{AuthorizationMetadata, OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};

/// A message that changes nothing, for its answer's challenge.
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// A client for rmcp. It follows no redirects, whatever it is asked for.
pub(super) struct OAuthClient(HttpClient);

impl OAuthClient {
    /// Creates a client for the server at this URL, and perhaps an authorization server that was configured.
    ///
    /// # Errors
    /// If the root certificates cannot be read.
    pub(super) fn new(server: &Url, authorization_server: Option<&Url>) -> Result<Self, RequestError> {
        let configured: Vec<&Url> = std::iter::once(server).chain(authorization_server).collect();
        HttpClient::new(&configured).map(Self)
    }

    /// Checks whether a URL may be requested, or opened in a browser.
    ///
    /// # Errors
    /// If it may not.
    pub(super) fn check(&self, url: &Url) -> Result<(), RequestError> {
        self.0.check(url)
    }

    /// Sends a message without a token, and returns the challenge with which the server refuses it (RFC 6750, section 3);
    /// `None` if it does not.
    pub(super) async fn fetch_challenge(&self, server: &Url) -> Option<String> {
        let request = Request::post(server.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        let response = self.0.execute(request.body(PING.as_bytes().to_vec()).ok()?).await.ok()?;
        let challenges =
            response.headers().get_all(WWW_AUTHENTICATE).into_iter().filter_map(|value| value.to_str().ok());
        let mut bearer = challenges.filter(|value| value.to_ascii_lowercase().starts_with("bearer"));
        bearer.next().filter(|_| response.status() == StatusCode::UNAUTHORIZED).map(str::to_owned)
    }

    /// Returns the metadata of an authorization server at this URL; `None` if there is none.
    pub(super) async fn fetch_metadata(&self, url: &Url) -> Option<AuthorizationMetadata> {
        let request = Request::get(url.as_str()).header(ACCEPT, "application/json").body(Vec::new()).ok()?;
        let response = self.0.execute(request).await.ok().filter(|response| response.status() == StatusCode::OK)?;
        serde_json::from_slice(response.body()).ok()
    }
}

impl OAuthHttpClient for OAuthClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move { self.0.execute(request.request).await.map_err(Into::into) })
    }
}
