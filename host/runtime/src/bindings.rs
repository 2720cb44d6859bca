//! Rust bindings of `wit/`, generated.

#![allow(missing_docs, reason = "the documentation is in the WIT files that this is generated from")]
#![allow(unreachable_pub, reason = "generated code makes everything public")]

wasmtime::component::bindgen!({
    path: "wit",
    world: "tool",
    // The only one of our own imports that may have to wait: the store may be on disk.
    imports: { "fumehood:tool/key-value": async },
    exports: { default: async },
    ownership: Borrowing { duplicate_if_necessary: false },
});
