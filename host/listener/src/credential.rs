//! The credential of a request, so that its streams end once that is not accepted any more.

use std::sync::Arc;

use fumehood_core::digest::Digest;

use crate::token_verifier::VerifiedToken;

/// The credential of a request.
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
