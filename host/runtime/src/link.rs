//! From compiled code to something that can be instantiated.

use fumehood_core::definition::DefinitionLimits;

use crate::dialect::typed::PackageDocs;
use crate::dialect::{Callable, Dialect, Skipped, typed};
use crate::load_error::LoadError;
use crate::shared::Shared;

/// Connects a component with what this host provides, and finds the tools of one that does not describe itself.
pub(crate) fn link(
    shared: &Shared,
    component: &wasmtime::component::Component,
    docs: &PackageDocs,
    dialect: &Dialect,
    limits: &DefinitionLimits,
) -> Result<(Callable, Vec<Skipped>), LoadError> {
    let link_error = |error: wasmtime::Error| LoadError::Link(crate::outcome::cut(&format!("{error:#}")));
    let pre = shared.linker.instantiate_pre(component).map_err(link_error)?;
    match dialect {
        Dialect::Contract(_) => {
            let pre = crate::bindings::ToolPre::new(pre).map_err(link_error)?;
            Ok((Callable::Contract(pre), Vec::new()))
        }
        Dialect::Typed => {
            let found = typed::discover(component, docs, &shared.engine, limits)
                .map_err(|error| LoadError::Typed(error.to_string()))?;
            Ok((Callable::Typed { pre, tools: found.tools }, found.skipped))
        }
    }
}
