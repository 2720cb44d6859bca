//! The error that ends a guest when the host itself failed.

/// A failure of the host during a call, which the guest did not cause. The text describes what failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HostFailure(pub(crate) String);
