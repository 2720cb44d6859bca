//! A component of a host: its tools, its limits, and what was approved of it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use fumehood_core::call::limits::Limits;
use fumehood_core::digest::Digest;
use fumehood_core::tool::Tool;
use fumehood_core::tool::name::Namespace;
use fumehood_runtime::{Component, Dialect};

use super::LoadTerms;
use super::error::LoadError;
use crate::lock::approval_check::ApprovalCheck;

/// A component that a host has loaded.
pub struct LoadedComponent {
    pub(crate) component: Component,
    /// In the order of the component's definitions.
    pub(crate) tools: Vec<Arc<Tool>>,
    /// The tool that stands for reading its resources, if clients are offered some.
    pub(crate) reader: Option<Arc<Tool>>,
    pub(crate) terms: LoadTerms,
    pub(crate) approval: Option<ApprovalCheck>,
    pub(crate) keeps_values: bool,
}

impl fmt::Debug for LoadedComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedComponent").field("digest", &self.component.digest()).finish_non_exhaustive()
    }
}

impl LoadedComponent {
    /// Returns the component in the sandbox.
    #[must_use]
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// Returns whether it is a hook of an operator: see [`Host::hook`](crate::Host::hook). Its functions are no tools of
    /// the host.
    #[must_use]
    pub fn is_hook(&self) -> bool {
        matches!(self.component.dialect(), Dialect::Hook(_))
    }

    /// Returns its tools, or the functions of a hook.
    #[must_use]
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// Checks that it has the bytes with this digest and these terms.
    ///
    /// # Errors
    /// [`LoadError::Different`] if it has not; `name` is its own.
    pub(crate) fn check_unchanged(
        &self,
        name: &Namespace,
        digest: &Digest,
        terms: &LoadTerms,
    ) -> Result<(), LoadError> {
        let difference =
            if self.component.digest() == *digest { self.terms.difference(terms) } else { Some("other bytes") };
        match difference {
            Some(difference) => Err(LoadError::Different { name: name.clone(), difference }),
            None => Ok(()),
        }
    }

    /// Returns whether it may keep keys and values.
    #[must_use]
    pub fn keeps_values(&self) -> bool {
        self.keeps_values
    }

    /// Returns the limits of calls without limits of their own.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.terms.limits
    }

    /// Returns the comparison with what was approved; `None` if it needs no approval.
    #[must_use]
    pub fn approval(&self) -> Option<&ApprovalCheck> {
        self.approval.as_ref()
    }
}

/// Derives a name from that of a file: `My Tools.wasm` becomes `my-tools`. Other characters than `a-z` and `0-9` become
/// dashes.
pub(crate) fn name_of_file(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    let dashed: String = stem.chars().map(|c| if matches!(c, 'a'..='z' | '0'..='9') { c } else { '-' }).collect();
    dashed.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}
