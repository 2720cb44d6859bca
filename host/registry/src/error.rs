//! Errors of talking to registries.

use std::time::Duration;

use fumehood_core::call::limits::display_bytes;
use fumehood_core::digest::Digest;

use crate::credentials::CredentialError;
use crate::store::StoreError;

/// An error of a registry or of the way to it. Each names what was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The client cannot be set up.
    #[error("cannot set up the client for registries: {0}")]
    Setup(String),
    /// The host cannot be reached.
    #[error("{host} cannot be reached: {reason}; check the name, the network and the configured proxy")]
    Unreachable {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The host did not answer in time.
    #[error("{host} did not answer {what} within {} s; try again, or use a mirror", .timeout.as_secs_f64())]
    Timeout {
        /// The host.
        host: String,
        /// The request.
        what: String,
        /// The limit.
        timeout: Duration,
    },
    /// The host sends too slowly.
    #[error("{host} sends {what} slower than {minimum} bytes per second; try again, or use a mirror")]
    Slow {
        /// The host.
        host: String,
        /// The request.
        what: String,
        /// The minimum, in bytes a second.
        minimum: u64,
    },
    /// The answer ended early, also after retries.
    #[error("{host} ended {what} after {received} of {expected} bytes; try again, or use a mirror")]
    Truncated {
        /// The host.
        host: String,
        /// The request.
        what: String,
        /// Number of bytes that arrived.
        received: u64,
        /// Number of bytes that were announced.
        expected: u64,
    },
    /// The answer is larger than it may be.
    #[error("{host} sends more than {} for {what}, the maximum; nothing was stored", display_bytes(*.maximum))]
    TooLarge {
        /// The host.
        host: String,
        /// The request.
        what: String,
        /// The maximum, in bytes.
        maximum: u64,
    },
    /// The address is not one that is asked.
    #[error("cannot fetch `{url}`: {reason}; expected https://HOST/PATH")]
    Url {
        /// The address.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The thing does not exist.
    #[error("{what} does not exist at {host}; check the name and the version, and whether it requires a login")]
    NotFound {
        /// The host.
        host: String,
        /// The thing.
        what: String,
    },
    /// The registry wants other credentials.
    #[error(
        "{host} refused {what}: {reason}; log in with `docker login {host}` or `podman login {host}`, and check your \
         permissions"
    )]
    Denied {
        /// The host.
        host: String,
        /// The request.
        what: String,
        /// The reason that the registry gives.
        reason: String,
    },
    /// The registry answers with an error.
    #[error("{host} answered {what} with status {status}: {message}")]
    Status {
        /// The host.
        host: String,
        /// The request.
        what: String,
        /// The HTTP status.
        status: u16,
        /// The message of the registry, if it gave one.
        message: String,
    },
    /// The answer is not what the specification says.
    #[error("invalid answer of {host} to {what}: {reason}")]
    Malformed {
        /// The host.
        host: String,
        /// The request.
        what: String,
        /// The reason.
        reason: String,
    },
    /// The artifact is no component.
    #[error(
        "{what} is not a component: {reason}; expected exactly one layer `application/wasm`, as `fumehood publish`, wkg \
         and `oras push IMAGE FILE:application/wasm` write it"
    )]
    NotAComponent {
        /// The reference.
        what: String,
        /// The reason.
        reason: String,
    },
    /// Bytes have another digest.
    #[error("{host} sent wrong bytes for {what}: expected the digest {expected}, got {found}; nothing was stored")]
    Digest {
        /// The host.
        host: String,
        /// The request.
        what: String,
        /// The expected digest.
        expected: Digest,
        /// The digest of the bytes.
        found: Digest,
    },
    /// The host redirects to where it may not.
    #[error("{host} redirected {what} to {target}, which is refused: {reason}")]
    Redirect {
        /// The host.
        host: String,
        /// The request.
        what: String,
        /// The host of the target.
        target: String,
        /// The reason.
        reason: &'static str,
    },
    /// Credentials cannot be read.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RegistryError {
    /// Returns whether another place, such as the registry behind a mirror, may have the answer.
    pub(crate) fn is_of_the_place(&self) -> bool {
        !matches!(self, Self::Store(_) | Self::Setup(_) | Self::Credentials(_))
    }
}
