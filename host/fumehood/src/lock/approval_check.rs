//! The comparison of a component with what an operator approved.

use std::path::PathBuf;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::digest::Digest;
use fumehood_core::policy::approval::{Approval, ApprovalStatus, Manifest, Origin};
use fumehood_core::policy::permission::Grant;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_runtime::{Component, Dialect};

/// The approval that calls of a component's tools require.
#[derive(Debug, Clone, Default)]
pub(crate) enum Pinning {
    /// None: the tools can be called.
    #[default]
    Off,
    /// The component has to be what was approved.
    On {
        approved: Option<Box<Approval>>,
        /// The folder that folders of the grant are recorded relative to.
        base: Option<PathBuf>,
        /// The origin of a component that was published.
        origin: Option<Box<Origin>>,
    },
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
        let Self::On { approved: Some(approved), .. } = self else { return false };
        approved.manifest().component == Some(*digest)
    }

    /// Compares a component that was loaded with what was approved.
    pub(crate) fn compare(&self, component: &Component, grant: &Grant) -> Option<ApprovalCheck> {
        let Self::On { approved, base, origin } = self else { return None };
        let contract = match component.dialect() {
            Dialect::Contract(version) => version.clone(),
            Dialect::Typed => "typed".to_owned(),
            Dialect::Hook(version) => format!("hook {version}"),
        };
        let grants = grant.lines(base.as_deref());
        let origin = origin.as_deref().map(|origin| Origin { imports: imports(component), ..origin.clone() });
        let parts = Manifest::new(Some(component.digest()), contract, grants, component.definitions());
        let parts = parts.with_origin(origin);
        Some(ApprovalCheck::compare(parts, approved.as_deref()))
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
    pub(crate) fn compare(parts: Manifest, approved: Option<&Approval>) -> Self {
        let standing = ApprovalStatus::compare(&parts, approved);
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
        let hint = format!("an operator has to look at it and approve it: `fumehood approve {component}`");
        Some(CallError::new(ErrorKind::NeedsApproval, message).with_hint(hint))
    }
}
