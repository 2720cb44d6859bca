//! Authorization: passwords, and tokens of an authorization service.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fumehood_transport::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use url::Url;
use zeroize::Zeroizing;

use super::{Place, RegistryClient, Right};
use crate::credentials::Credential;
use crate::error::RegistryError;
use crate::http::{Challenge, Request, ServiceAccess, authority, parse_challenges, read_bounded};

/// Maximum size of the answer of an authorization service, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 << 10;
/// Lifetime of a token whose service names none, in seconds (OCI distribution specification, "Token authentication").
const DEFAULT_TOKEN_SECONDS: u64 = 60;
/// Time before its end at which a token is not used any more, in seconds.
const TOKEN_MARGIN_SECONDS: u64 = 10;
/// Name of this client at authorization services.
const CLIENT_ID: &str = "fumehood";

/// Authorizations that were obtained, by place and right.
#[derive(Debug, Default)]
pub(super) struct Tokens(BTreeMap<(String, String, Right), Token>);

struct Token {
    header: Zeroizing<String>,
    until: Option<Instant>,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("until", &self.until).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl Tokens {
    /// Returns the header for requests of this kind, if it is still good.
    pub(super) fn get(&self, place: &Place, right: Right) -> Option<Zeroizing<String>> {
        let token = self.0.get(&(place.host.clone(), place.repository.clone(), right))?;
        token.until.is_none_or(|until| Instant::now() < until).then(|| token.header.clone())
    }
}

impl RegistryClient {
    /// Obtains what a registry asks for. Returns the value of the header, or `None` if there is nothing to offer.
    pub(super) async fn authorize(
        &self,
        place: &Place,
        right: Right,
        response: &Response,
    ) -> Result<Option<Zeroizing<String>>, RegistryError> {
        let challenges = parse_challenges(response.headers());
        let credential = self.credentials.find(&place.host, &place.repository).await?;
        let is_encrypted = response.url().scheme() == "https" || self.transport.allows_plain(response.url());
        for challenge in challenges {
            let token = match (challenge, &credential) {
                (Challenge::Basic, Some(Credential::Basic { user, password })) if is_encrypted => {
                    Some(Token { header: basic(user, password), until: None })
                }
                (Challenge::Basic, _) => None,
                (Challenge::Bearer { realm, service, scope }, credential) => {
                    Some(self.bearer(place, right, &realm, service, scope, credential.as_ref()).await?)
                }
            };
            if let Some(token) = token {
                let header = token.header.clone();
                let key = (place.host.clone(), place.repository.clone(), right);
                self.tokens.lock().unwrap_or_else(std::sync::PoisonError::into_inner).0.insert(key, token);
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// Asks an authorization service for a token. The scope is made here: a registry must not choose what a token is for.
    async fn bearer(
        &self,
        place: &Place,
        right: Right,
        realm: &str,
        service: Option<String>,
        scope: Option<String>,
        credential: Option<&Credential>,
    ) -> Result<Token, RegistryError> {
        let what = "the request for a token".to_owned();
        let malformed = |reason| RegistryError::Malformed { host: place.host.clone(), what: what.clone(), reason };
        let invalid = "its authorization service has an invalid address";
        let url = Url::parse(realm).map_err(|_| malformed(invalid.to_owned()))?;
        let authority = authority(&url);
        let refused = |reason| malformed(format!("its authorization service {authority} was not contacted: {reason}"));
        let ServiceAccess { gets_password, access } =
            self.transport.service_access(&place.host, &url).map_err(refused)?;
        let is_withheld = credential.is_some() && !gets_password;
        let credential = credential.filter(|_| gets_password);
        let actions = if right == Right::Push { "pull,push" } else { "pull" };
        let needed = format!("repository:{}:{actions}", place.repository);
        // Some registries name repositories in another way; that is fine as long as it asks for no more.
        let scope = scope.filter(|scope| scope.ends_with(":pull") && !scope.contains(' ')).unwrap_or(needed);
        let mut request = Request::get(url, what.clone());
        let mut fields = vec![("scope", scope)];
        fields.extend(service.map(|service| ("service", service)));
        let mut authorization = None;
        if let Some(Credential::IdentityToken(token)) = credential {
            fields.push(("grant_type", "refresh_token".to_owned()));
            fields.push(("refresh_token", token.as_str().to_owned()));
            fields.push(("client_id", CLIENT_ID.to_owned()));
            let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
            request.method = Method::POST;
            let media_type = HeaderValue::from_static("application/x-www-form-urlencoded");
            request.headers.insert(CONTENT_TYPE, media_type);
            request.body = Some(Bytes::from(form));
        } else {
            request.url.query_pairs_mut().extend_pairs(fields);
            if let Some(Credential::Basic { user, password }) = credential {
                authorization = Some(basic(user, password));
            }
        }
        let authorization = authorization.as_ref().map(|header| header.as_str());
        let response = self.transport.send(&request, authorization, access).await?;
        if response.status() != StatusCode::OK {
            let refusal = self.transport.refusal(&request, response).await;
            // A service that does not know the user says 404 or 400 at times.
            return Err(match refusal {
                RegistryError::NotFound { what, .. } | RegistryError::Denied { what, .. } if is_withheld => {
                    let reason = format!(
                        "its authorization service {authority} is at another site, so the password was not sent; if \
                         you trust it, add it to `token_hosts`"
                    );
                    RegistryError::Denied { host: place.host.clone(), what, reason }
                }
                RegistryError::NotFound { what, .. } => {
                    RegistryError::Denied { host: place.host.clone(), what, reason: "no such user or token".to_owned() }
                }
                other => other,
            });
        }
        self.read_token(place, &request, response).await
    }

    /// Reads the answer of an authorization service.
    async fn read_token(&self, place: &Place, request: &Request, response: Response) -> Result<Token, RegistryError> {
        let bytes = read_bounded(response, &place.host, &request.what, MAX_TOKEN_BYTES).await?;
        let bytes = Zeroizing::new(bytes);
        let answer: TokenAnswer = serde_json::from_slice(&bytes)
            .map_err(|_| malformed(place, request, "its authorization service returned no token"))?;
        let token = Zeroizing::new(if answer.token.is_empty() { answer.access_token } else { answer.token });
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(malformed(place, request, "its authorization service returned no token"));
        }
        let lifetime = answer.expires_in.unwrap_or(DEFAULT_TOKEN_SECONDS).saturating_sub(TOKEN_MARGIN_SECONDS);
        // More than a day is as good as a day, and cannot overflow.
        let until = Instant::now() + Duration::from_secs(lifetime.min(86_400));
        Ok(Token { header: Zeroizing::new(format!("Bearer {}", token.as_str())), until: Some(until) })
    }
}

fn malformed(place: &Place, request: &Request, reason: &str) -> RegistryError {
    let host = place.host.clone();
    let what = request.what.clone();
    RegistryError::Malformed { host, what, reason: reason.to_owned() }
}

/// Returns the value of the header for a user and a password (RFC 7617).
fn basic(user: &str, password: &str) -> Zeroizing<String> {
    let pair = Zeroizing::new(format!("{user}:{password}"));
    Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())))
}
