//! Rust bindings of `wit/code/`, generated.

#![allow(missing_docs, reason = "the documentation is in the WIT files that this is generated from")]
#![allow(unreachable_pub, reason = "generated code makes everything public")]

wasmtime::component::bindgen!({
    path: "wit/code",
    world: "code",
    // A program waits for its calls, and is stopped while it waits.
    imports: { "fumehood:code/calls": async | trappable },
    exports: { default: async },
});
