//! What a guest is ended with when the host could not do its part.

/// The host itself failed during a call: the guest is not to blame. The text says at what.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HostFailure(pub(crate) String);
