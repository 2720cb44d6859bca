//! The comparison of a component with what an operator approved.

use std::path::PathBuf;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::digest::Digest;
use fumehood_core::policy::approval::{Approval, ApprovalStatus, LibraryItem, Manifest, Origin};
use fumehood_core::policy::permission::Grant;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::tool::command_template::CommandTemplate;
use fumehood_runtime::{Component, Dialect};

/// The approval that calls of a component's tools require.
#[derive(Debug, Clone, Default)]
pub(crate) enum Pinning {
    /// None: the tools can be called.
    #[default]
    Off,
    /// The component has to be what was approved.
    On {
        approved: Box<LockedApproval>,
        /// The folder that folders of the grant are recorded relative to.
        base: Option<PathBuf>,
        /// The origin of a component that was published.
        origin: Option<Box<Origin>>,
    },
}

/// The approval of one name, and what a lock knows beside it: see [`crate::Lock::locked`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockedApproval {
    approved: Option<Approval>,
    /// An entry of the lock that somebody else wrote.
    proposal: Option<Approval>,
    /// This user's last approval, whatever the lock has now.
    previous: Option<Approval>,
}

impl LockedApproval {
    pub(crate) fn new(approved: Option<Approval>, proposal: Option<Approval>, previous: Option<Approval>) -> Self {
        Self { approved, proposal, previous }
    }

    /// Returns the prompts and resource templates that were approved.
    #[cfg(all(feature = "agent", feature = "mcp"))]
    pub(crate) fn library(&self) -> &[LibraryItem] {
        self.approved().map_or(&[], |approved| approved.library.as_slice())
    }

    /// Returns what is approved.
    #[cfg(all(feature = "agent", feature = "mcp"))]
    pub(crate) fn approved(&self) -> Option<&Manifest> {
        self.approved.as_ref().map(Approval::manifest)
    }

    fn compare(&self, parts: &Manifest) -> ApprovalStatus {
        let Self { approved, proposal, previous } = self;
        if approved.is_some() {
            return ApprovalStatus::compare(parts, approved.as_ref());
        }
        let Some(proposal) = proposal else { return ApprovalStatus::NeverApproved };
        let changes = previous.as_ref().map(|previous| previous.manifest().changes(parts)).unwrap_or_default();
        if proposal.pin() == parts.pin() || previous.is_some() {
            ApprovalStatus::Proposed(changes)
        } else {
            ApprovalStatus::NeverApproved
        }
    }
}

impl From<Option<Approval>> for LockedApproval {
    fn from(approved: Option<Approval>) -> Self {
        Self { approved, ..Self::default() }
    }
}

/// A loaded component compared with what was approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalCheck {
    parts: Manifest,
    standing: ApprovalStatus,
}

impl Pinning {
    /// Sets the origin, if there is one.
    pub(crate) fn with_origin(self, from: Option<Origin>) -> Self {
        match self {
            Self::On { approved, base, .. } => Self::On { approved, base, origin: from.map(Box::new) },
            Self::Off => Self::Off,
        }
    }

    /// Returns whether an approval is for bytes with this digest. Grants and definitions are compared later.
    pub(crate) fn knows(&self, digest: &Digest) -> bool {
        let Self::On { approved, .. } = self else { return false };
        approved.approved.as_ref().is_some_and(|approved| approved.manifest().component == Some(*digest))
    }

    /// Compares a component that was loaded with what was approved.
    pub(crate) fn compare(&self, component: &Component, grant: &Grant) -> Option<ApprovalCheck> {
        let Self::On { approved, base, origin } = self else { return None };
        let contract = match component.dialect() {
            Dialect::Contract(version) => version.clone(),
            Dialect::Typed => "typed".to_owned(),
            Dialect::Command(version) => format!("command {version}"),
            Dialect::Hook(version) => format!("hook {version}"),
        };
        let mut grants = grant.lines(base.as_deref());
        grants.extend(component.command().map(CommandTemplate::pin));
        let origin = origin.as_deref().map(|origin| Origin { imports: imports(component), ..origin.clone() });
        let parts = Manifest::new(Some(component.digest()), contract, grants, component.definitions());
        let resources = component.resources().iter().map(LibraryItem::resource).collect();
        let parts = parts.with_origin(origin).with_library(resources);
        Some(ApprovalCheck::compare(parts, approved))
    }
}

/// Returns the names of a component's imports, sorted.
fn imports(component: &Component) -> Vec<PrintableText> {
    let mut names: Vec<PrintableText> = component.imports().iter().map(|import| import.name.as_str().into()).collect();
    names.sort();
    names.dedup();
    names
}

impl ApprovalCheck {
    /// Compares these parts with what was approved.
    pub(crate) fn compare(parts: Manifest, approved: &LockedApproval) -> Self {
        let standing = approved.compare(&parts);
        Self { parts, standing }
    }

    /// Returns the parts that an approval of the component covers.
    #[must_use]
    pub fn parts(&self) -> &Manifest {
        &self.parts
    }

    /// Returns the result of the comparison.
    #[must_use]
    pub fn standing(&self) -> &ApprovalStatus {
        &self.standing
    }

    /// Returns the error for every call, unless the component is approved.
    pub(crate) fn refusal(&self, component: &str) -> Option<CallError> {
        if self.standing.is_approved() {
            return None;
        }
        let message = format!("`{component}` {}", self.standing);
        let accept = match self.standing {
            ApprovalStatus::Proposed(_) => ", or accept the whole lock with `--accept-lock`",
            _ => "",
        };
        let hint = format!("an operator must review and approve it: `fumehood approve {component}`{accept}");
        Some(CallError::new(ErrorKind::NeedsApproval, message).with_hint(hint))
    }
}
