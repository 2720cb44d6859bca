//! The WIT beside this crate, as wit-bindgen renders it.

#![allow(missing_docs, unreachable_pub, unused_qualifications, dead_code, reason = "generated code")]

wit_bindgen::generate!({
    path: "wit",
    world: "greeter",
    default_bindings_module: "crate::bindings",
});
