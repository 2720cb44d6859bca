//! The contract, as wit-bindgen renders it. Only the component's own glue sees these types.
//!
//! The generated code moves values across the component's boundary by pointer, so it is `unsafe`. The workspace forbids
//! that in what we write; the compiler does not apply the lint to what another crate's macro generates.

#![allow(missing_docs, unreachable_pub, unused_qualifications, reason = "generated code")]

wit_bindgen::generate!({
    path: "wit",
    world: "tool",
    pub_export_macro: true,
    default_bindings_module: "fumehood_guest::bindings",
    runtime_path: "::fumehood_guest::__private::wit_bindgen::rt",
});
