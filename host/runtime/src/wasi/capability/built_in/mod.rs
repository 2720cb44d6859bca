//! Interfaces of WASI that the runtime provides as capabilities, over powers that a [`Grant`] has anyway.
//!
//! A component may import them without a grant, like the rest of WASI: they refuse at use.

mod config;
mod key_value;

use std::sync::Arc;

use fumehood_core::capability::{BoundCapability, CapabilityDefinition};
use fumehood_core::policy::permission::{Grant, Power};

use crate::wasi::ComponentStore;

/// A capability of the runtime.
pub(crate) struct BuiltIn {
    /// The power whose grant it needs.
    pub(crate) power: Power,
    pub(super) define: fn() -> CapabilityDefinition,
    pub(crate) bind: fn(&Grant, &Arc<ComponentStore>) -> BoundCapability,
}

/// All of them.
pub(super) const ALL: &[BuiltIn] = &[config::BUILT_IN, key_value::BUILT_IN];
