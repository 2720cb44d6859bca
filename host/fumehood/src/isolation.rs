//! The choice between this process and a worker process for each component.

use fumehood_runtime::Isolation;

use crate::approval_check::Pinning;

/// The components that run in worker processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsolationPolicy {
    /// None.
    Nothing,
    /// All whose bytes are not those of an approval, also while they describe their tools: see
    /// [`crate::Load::with_approval`].
    Unapproved,
    /// All, whatever [`crate::Load::isolation`] says.
    Everything,
}

impl IsolationPolicy {
    /// Decides where a component of these bytes runs, given the wish of its load.
    pub(crate) fn choose(self, wanted: Option<Isolation>, pinning: &Pinning, bytes: &[u8]) -> Isolation {
        match (self, wanted) {
            (Self::Everything, _) => Isolation::Process,
            (_, Some(wanted)) => wanted,
            (Self::Unapproved, None) if !pinning.knows(bytes) => Isolation::Process,
            (Self::Unapproved | Self::Nothing, None) => Isolation::InProcess,
        }
    }
}
