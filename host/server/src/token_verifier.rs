//! The port for access tokens that an authorization server issued (OAuth 2.1): their verification, and the metadata by which
//! clients get one.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::digest::Digest;
use http::HeaderValue;

/// The prefix of the paths at which the metadata of a resource is found (RFC 9728, section 3).
pub(crate) const METADATA_PREFIX: &str = "/.well-known/oauth-protected-resource";

/// The credential of a request. The streams of a request end once its credential is not accepted any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// None: the listener is open to every program on this machine.
    Open,
    /// A token of a tenant, by its digest.
    Token(Digest),
    /// A verified access token.
    Access(VerifiedToken),
}

/// A credential, and the tenant that it was accepted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) tenant: Arc<str>,
    pub(crate) credential: Credential,
}

/// Verification of access tokens, for clients that have no token of a tenant.
pub trait TokenVerifier: fmt::Debug + Send + Sync {
    /// Verifies a token, in some seconds at most.
    ///
    /// # Errors
    /// If it is not accepted, or cannot be verified now.
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<VerifiedToken, TokenRefusal>>;

    /// Returns the metadata document for this path; `None` if there is none.
    fn metadata(&self, path: &str) -> Option<&str>;

    /// Returns `WWW-Authenticate` of a response to a request whose token was refused, or that had none.
    fn challenge(&self, refusal: Option<TokenRefusal>) -> HeaderValue;
}

/// A verified token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedToken {
    /// The values of the claim that names the tenant: usually one, and several of a list such as scopes.
    pub claims: Vec<String>,
    /// The name of the tenant, if no tenant has one of the claims.
    pub default_tenant: Option<Arc<str>>,
}

/// A token that is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenRefusal {
    /// It is not valid, for this reason.
    Invalid(&'static str),
    /// It is valid and lacks a scope.
    InsufficientScope,
    /// The keys of its issuer cannot be fetched.
    Unavailable,
}
