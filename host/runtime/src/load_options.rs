//! The options of loading one component.

use std::sync::Arc;

use fumehood_core::definition::DefinitionLimits;
use fumehood_core::limits::Limits;
use fumehood_core::name::Namespace;
use fumehood_core::permission::Grant;

use crate::workers::Isolation;

/// How a component is to be loaded.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Limits of the call that asks the component for its tools.
    pub limits: Limits,
    /// Caps on what it may say about them.
    pub definitions: DefinitionLimits,
    /// What it is called in its host: what it keeps belongs to that name. Without one it has no store.
    pub name: Option<Namespace>,
    /// What it may do, when its tools are called.
    pub grant: Grant,
    /// Whether a component that imports a power which is not granted is refused, whether it uses it or not.
    pub strict_imports: bool,
    /// Whether a component that takes long to compile is compiled all the same.
    pub allow_slow_compile: bool,
    /// What is said of the functions and types of a component that does not describe its tools itself, in place of what its own
    /// `package-docs` section says: the content of such a section.
    pub docs: Option<Arc<[u8]>>,
    /// Where its calls run. [`Isolation::Process`] needs [`crate::SandboxConfig::workers`].
    pub isolation: Isolation,
}
