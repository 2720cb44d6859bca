//! The WebAssembly proposals that are enabled, for the engine and for the scan before it, and the names of the others.

use wasmparser::WasmFeatures;

/// The proposals that guests may use: those that toolchains for components emit. Everything else is off, including
/// proposals that a later release of the engine enables by default.
///
/// `GC_TYPES` is off with the rest of garbage collection, so `externref` is refused and `funcref` is not.
pub(crate) const ENABLED: WasmFeatures = WasmFeatures::FLOATS
    .union(WasmFeatures::MUTABLE_GLOBAL)
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::COMPONENT_MODEL);

/// The proposals that the engine's own code may use, besides those of guests: an adapter between two components of a
/// composition copies values from the memory of one into that of the other, so it names both.
///
/// The scan before the engine refuses them in modules of guests: no toolchain for components emits them.
pub(crate) const OF_ADAPTERS: WasmFeatures = WasmFeatures::MULTI_MEMORY;

/// The proposals that guests of [`EngineKind::Asynchronous`](super::EngineKind::Asynchronous) may use besides [`ENABLED`].
///
/// Tasks that run on stacks of their own (`CM_ASYNC_STACKFUL`) and further forms of built-in functions
/// (`CM_MORE_ASYNC_BUILTINS`) stay off: toolchains emit functions with callbacks.
pub(crate) const ASYNCHRONOUS: WasmFeatures = WasmFeatures::CM_ASYNC;

/// Names of the proposals that are off for guests, as their specifications give them.
const NAMES: [(WasmFeatures, &str); 29] = [
    (WasmFeatures::GC, "garbage collection"),
    (WasmFeatures::GC_TYPES, "garbage collection"),
    (WasmFeatures::FUNCTION_REFERENCES, "function references"),
    (WasmFeatures::EXCEPTIONS, "exception handling"),
    (WasmFeatures::LEGACY_EXCEPTIONS, "legacy exception handling"),
    (WasmFeatures::THREADS, "threads"),
    (WasmFeatures::SHARED_EVERYTHING_THREADS, "shared-everything threads"),
    (WasmFeatures::TAIL_CALL, "tail calls"),
    (WasmFeatures::MULTI_MEMORY, "multiple memories"),
    (WasmFeatures::MEMORY64, "memory64"),
    (WasmFeatures::RELAXED_SIMD, "relaxed SIMD"),
    (WasmFeatures::STACK_SWITCHING, "stack switching"),
    (WasmFeatures::WIDE_ARITHMETIC, "wide arithmetic"),
    (WasmFeatures::CUSTOM_PAGE_SIZES, "custom page sizes"),
    (WasmFeatures::MEMORY_CONTROL, "memory control"),
    (WasmFeatures::CUSTOM_DESCRIPTORS, "custom descriptors"),
    (WasmFeatures::COMPACT_IMPORTS, "compact import section"),
    (WasmFeatures::CM_ASYNC_STACKFUL, "component model async, stackful"),
    (WasmFeatures::CM_MORE_ASYNC_BUILTINS, "component model async, more built-ins"),
    (WasmFeatures::CM_THREADING, "component model threading"),
    (WasmFeatures::CM_ERROR_CONTEXT, "component model error context"),
    (WasmFeatures::CM_GC, "component model garbage collection"),
    (WasmFeatures::CM_VALUES, "component model values"),
    (WasmFeatures::CM_MAP, "component model maps"),
    (WasmFeatures::CM64, "component model memory64"),
    (WasmFeatures::CM_FIXED_LENGTH_LISTS, "component model fixed-length lists"),
    (WasmFeatures::CM_NESTED_NAMES, "component model nested names"),
    (WasmFeatures::CM_IMPLEMENTS, "component model implements"),
    (WasmFeatures::CM_CANON_NAMES, "component model canonical names"),
];

/// Returns the name of a proposal that is off.
pub(crate) fn name(feature: WasmFeatures) -> &'static str {
    NAMES.iter().find(|(known, _)| *known == feature).map_or("an unknown proposal", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_enabled_or_has_a_name() {
        for (flag, feature) in WasmFeatures::all().iter_names() {
            let is_named = NAMES.iter().any(|(known, _)| *known == feature);
            assert_ne!(ENABLED.union(ASYNCHRONOUS).contains(feature), is_named, "{flag}");
        }
    }
}
