//! The HTTP client of rmcp's OAuth, on top of ours.

use fumehood_oauth::{HttpClient, RequestError};
use reqwest::Url;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};

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
}

impl OAuthHttpClient for OAuthClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move { self.0.execute(request.request).await.map_err(Into::into) })
    }
}
